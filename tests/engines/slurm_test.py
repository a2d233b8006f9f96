#!/usr/bin/env python3
"""A real Slurm on this machine: one node, one GPU of eight shards, the software driver. To be run as root.

usage: slurm_test.py CUBFC DRIVER_FOLDER LIBRARY EXAMPLES_FOLDER [private]

private: with job_container/tmpfs, so that each job has a /tmp and a /dev/shm of its own.

Skipped (exit status 77) where Slurm or munge is missing.
"""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

CUBFC, DRIVER, LIBRARY, EXAMPLES = map(os.path.abspath, sys.argv[1:5])
IS_PRIVATE = sys.argv[5:] == ["private"]
# Not in /tmp, which a private job does not see.
FOLDER = tempfile.TemporaryDirectory(prefix="cubfc-slurm-test-", dir="/var/tmp", ignore_cleanup_errors=True)
HERE = pathlib.Path(FOLDER.name)
TAKING = pathlib.Path(__file__).resolve().parent / "taking.py"
SECONDS = 120
MIB = 1 << 20
GPU = 24 << 30
SHARDS = 8
HOST = socket.gethostname().split(".")[0]
DAEMONS = []

CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/node.pid
SlurmctldLogFile={folder}/controller.log
SlurmdLogFile={folder}/node.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu,shard
ReturnToService=2
TaskProlog={folder}/prolog.sh
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN Gres=gpu:1,shard:{shards}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
"""
PRIVATE = """
JobContainerType=job_container/tmpfs
PrologFlags=Contain
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def environment(**more):
    # As on compute nodes, without XDG_RUNTIME_DIR: processes meet in /dev/shm.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CUBFC_", "SLURM_", "XDG_RUNTIME_DIR"))}
    return kept | {"SLURM_CONF": str(HERE / "slurm.conf"), "LD_LIBRARY_PATH": DRIVER, "STANDIN_MEMORY": "24GiB",
                   "STANDIN_SHARED": str(HERE / "devices")} | more


def start(*command):
    DAEMONS.append(subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))


def wait_for(what, is_so):
    deadline = time.monotonic() + SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            logs = "".join(path.read_text(errors="replace")[-2000:] for path in HERE.glob("*.log"))
            raise RuntimeError(f"{what}: not within {SECONDS} s\n{logs}")
        time.sleep(0.1)


def setUpModule():
    for name in ("state", "spool"):
        (HERE / name).mkdir()
    key = HERE / "munge.key"
    key.write_bytes(os.urandom(64))
    key.chmod(0o600)
    HERE.chmod(0o755)
    (HERE / "slurm.conf").write_text(CONFIGURATION.format(
        host=HOST, folder=HERE, controller=free_port(), node=free_port(), cpus=os.cpu_count(), shards=SHARDS) +
        (PRIVATE if IS_PRIVATE else ""))
    (HERE / "jobs").mkdir()
    (HERE / "job_container.conf").write_text(f"AutoBasePath=true\nBasePath={HERE}/jobs\n")
    (HERE / "gres.conf").write_text(f"Name=gpu File=/dev/null\nName=shard Count={SHARDS}\n")
    prolog = HERE / "prolog.sh"
    prolog.write_text(f"#!/bin/sh\nLIBCUBFC={LIBRARY} SHARDS_PER_GPU={SHARDS} exec {EXAMPLES}/slurm-task-prolog.sh\n")
    prolog.chmod(0o755)
    start("munged", "--foreground", "--force", f"--socket={HERE}/munge.socket", f"--key-file={key}", f"--pid-file={HERE}/munge.pid",
          f"--log-file={HERE}/munge.log", f"--seed-file={HERE}/munge.seed")
    wait_for("munge", (HERE / "munge.socket").exists)
    start("slurmctld", "-D", "-f", str(HERE / "slurm.conf"))
    start("slurmd", "-D", "-f", str(HERE / "slurm.conf"))
    wait_for("the node", lambda: said("sinfo", "-h", "-o", "%T").strip() in ("idle", "mixed"))


def tearDownModule():
    for daemon in reversed(DAEMONS):
        daemon.send_signal(signal.SIGTERM)
    for daemon in reversed(DAEMONS):
        try:
            daemon.wait(timeout=30)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
    FOLDER.cleanup()


def run(*command, **more):
    return subprocess.run(command, env=environment(**more), capture_output=True, text=True, timeout=SECONDS, check=False, cwd=HERE)


def said(*command, **more):
    return run(*command, **more).stdout


def taken(text):
    """Bytes by task, of what taking.py has printed."""
    return {line.split()[0]: int(line.split()[1]) for line in text.splitlines() if len(line.split()) == 2 and line.split()[1].isdigit()}


class Jobs(unittest.TestCase):
    def assert_about(self, bytes_taken, wanted):
        self.assertGreaterEqual(bytes_taken, 0.98 * wanted)
        self.assertLessEqual(bytes_taken, wanted)

    def test_the_second_task_gets_what_the_first_has_left(self):
        mark, end = HERE / "first", HERE / "end"
        job = subprocess.Popen(["srun", "-n2", "--gres=shard:2", sys.executable, TAKING, "4096", end, mark],
                               env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=HERE)
        self.addCleanup(job.kill)
        lines = [job.stdout.readline()]
        mark.touch()
        lines.append(job.stdout.readline())
        end.touch()
        job.communicate(timeout=SECONDS)
        by_task = taken("".join(lines))
        self.assertEqual(by_task["0"], 4096 * MIB)
        self.assert_about(sum(by_task.values()), GPU * 2 // SHARDS)

    def test_each_task_has_an_equal_part_by_share_auto(self):
        told = said("srun", "-n2", "--gres=shard:2", CUBFC, "run", "-q", "--share", "auto", "--", sys.executable, TAKING, "all",
                    SHARDS_PER_GPU=str(SHARDS))
        for bytes_taken in taken(told).values():
            self.assert_about(bytes_taken, GPU // SHARDS)
        self.assertEqual(len(taken(told)), 2)

    def test_a_batch_scripts_own_programs_are_limited_too(self):
        script = HERE / "job.sh"
        output = HERE / "job.out"
        script.write_text(f"#!/bin/sh\n{sys.executable} {TAKING} all\nsrun -n1 --gres=shard:2 {sys.executable} {TAKING} all\n")
        done = run("sbatch", "--wait", "-n1", "--gres=shard:2", "-o", str(output), str(script))
        self.assertEqual(done.returncode, 0, done.stderr)
        by_program = [int(line.split()[1]) for line in output.read_text().splitlines() if line.startswith("0 ")]
        self.assertEqual(len(by_program), 2)
        for bytes_taken in by_program:
            self.assert_about(bytes_taken, GPU * 2 // SHARDS)

    def test_what_is_refused_is_told_in_slurms_word(self):
        report = HERE / "oom.jsonl"
        said("srun", "-n1", "--gres=shard:2", sys.executable, TAKING, "all", CUBFC_OOM_REPORT=str(report))
        failed = json.loads(report.read_text().splitlines()[0])
        self.assertIn("shard:2", failed["advice"])

    def test_two_jobs_have_what_each_was_given(self):
        end = HERE / "end-of-two"
        jobs = [subprocess.Popen(["srun", "-n1", f"--gres=shard:{shards}", sys.executable, TAKING, "all", end],
                                 env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=HERE) for shards in (2, 4)]
        lines = [job.stdout.readline() for job in jobs]
        end.touch()
        for job in jobs:
            job.communicate(timeout=SECONDS)
        for line, shards in zip(lines, (2, 4)):
            self.assert_about(int(line.split()[1]), GPU * shards // SHARDS)

    def test_a_job_that_is_killed_leaves_nothing(self):
        job = subprocess.Popen(["srun", "-n1", "--gres=shard:2", "-J", "killed", sys.executable, TAKING, "all", HERE / "never"],
                               env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=HERE)
        self.assert_about(int(job.stdout.readline().split()[1]), GPU * 2 // SHARDS)
        run("scancel", "--signal=KILL", "--name=killed")
        run("scancel", "--name=killed")
        job.communicate(timeout=SECONDS)
        wait_for("the job's end", lambda: said("squeue", "-h").strip() == "")
        told = said("srun", "-n1", f"--gres=shard:{SHARDS}", sys.executable, TAKING, "all")
        self.assert_about(taken(told)["0"], GPU)

    def test_one_command_proves_that_a_job_is_limited(self):
        limited = run("srun", "-n1", "--gres=shard:2", CUBFC, "check", "--enforced")
        self.assertEqual(limited.returncode, 0, limited.stdout)
        self.assertIn("CUBFC_GROUP_LIMIT 25% (CUBFC_GROUP_LIMIT, by shard:2)", limited.stdout)
        unlimited = run("srun", "-n1", CUBFC, "check", "--enforced")
        self.assertEqual(unlimited.returncode, 1, unlimited.stdout)

    def test_private_folders_are_private(self):
        told = said("srun", "-n1", "sh", "-c", "touch /dev/shm/cubfc-slurm-test-seen; ls /tmp | wc -l")
        there = os.path.exists("/dev/shm/cubfc-slurm-test-seen")
        if there:
            os.unlink("/dev/shm/cubfc-slurm-test-seen")
        self.assertEqual(there, not IS_PRIVATE, told)

    def test_a_task_without_a_gpu_is_left_alone(self):
        told = said("srun", "-n1", "sh", "-c", 'echo "${LD_PRELOAD:-none}"')
        self.assertEqual(told, "none\n")


if __name__ == "__main__":
    if os.geteuid() != 0 or not all(map(shutil.which, ("munged", "slurmctld", "slurmd", "srun"))):
        print("there is no Slurm, or this is not root")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
