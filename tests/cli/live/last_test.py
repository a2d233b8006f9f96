#!/usr/bin/env python3
"""How a run ended is told however it ends: `cubfc last`, the next `cubfc run`, `cubfc run --wait`, and CUBFC_SUMMARY while the
program runs. The program stays what it is without cubfc: its process, its status, its signals.

usage: last_test.py CUBFC LIBRARY DRIVER_FOLDER PROGRAMS_FOLDER
"""
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from under_cubfc import PATIENCE, UnderCubfc, run_tests, wait_until

# Takes 100 MiB of GPU memory, and ends as its argument says; "wait": when its stdin ends.
PROGRAM = """\
import ctypes, os, signal, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()
cuda.cuInit(0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuCtxSetCurrent(context)
assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(100 << 20)) == 0
print(os.getpid(), flush=True)
how = sys.argv[1]
if how == "wait":
    sys.stdin.read()
elif how == "_exit":
    os._exit(4)
elif how == "segv":
    ctypes.string_at(1)
elif how.startswith("SIG"):
    os.kill(os.getpid(), getattr(signal, how))
    signal.pause()
"""
PEAK = "GPU 0: peak 100.0 MiB of 100.0 MiB, 1 allocation (1 driver call), 0 failed"
WAYS = {"_exit": 4, "segv": -signal.SIGSEGV, "SIGTERM": -signal.SIGTERM, "SIGKILL": -signal.SIGKILL, "SIGABRT": -signal.SIGABRT}


class Last(UnderCubfc):
    def setUp(self):
        super().setUp()
        self.program = self.folder / "program.py"
        self.write(self.program, PROGRAM.encode())
        self.python = ["python3", "-B", str(self.program)]
        self.environment |= {"LD_LIBRARY_PATH": self.driver, "STANDIN_MEMORY": "4GiB", "STANDIN_SHARED": str(self.folder / "devices"),
                             "CUBFC_PREALLOCATE": "false"}

    def run_words(self, *words):
        return [self.cubfc, "run", "--library", self.library, *words]

    def end_as(self, how, *flags, **more):
        """A run that ends so: what subprocess tells of it, and the program's process id."""
        done = subprocess.run(self.run_words(*flags, "--", *self.python, how), env=self.environment | more, capture_output=True,
                              text=True, timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL, **self.user)
        return done, int(done.stdout)

    def open_run(self, *flags, how="wait", words=None, **more):
        process = subprocess.Popen(words or self.run_words(*flags, "--", *self.python, how), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                   env=self.environment | more, **self.user)
        self.addCleanup(self.close, process)
        return process, int(process.stdout.readline())

    def close(self, process):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=PATIENCE)

    def test_each_way_to_end_is_told_afterwards(self):
        for how, status in WAYS.items():
            with self.subTest(how=how):
                done, pid = self.end_as(how)
                self.assertEqual(done.returncode, status)
                self.assertNotIn("GPU 0: peak", done.stderr)
                lines = self.output_of("last", str(pid)).splitlines()
                self.assertRegex(lines[0], rf"^program\.py {how} \(process {pid}\), since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d, "
                                           r"ended without a summary$")
                self.assertEqual(lines[1], f"  {PEAK}")
                self.assertEqual(self.output_of("last").splitlines(), lines)
        every = self.output_of("last", "--all")
        self.assertEqual(re.findall(r"^program\.py (\S+)", every, re.M), list(reversed(WAYS)))
        told = [json.loads(line) for line in self.output_of("last", "--all", "--json").splitlines()]
        self.assertEqual([each["devices"][0]["peak_bytes_in_use"] for each in told], [100 << 20] * len(WAYS))

    def test_a_run_that_has_told_its_summary_is_not_told_again(self):
        done, pid = self.end_as("exit")
        self.assertEqual(done.returncode, 0)
        self.assertIn(PEAK.split(')')[0], done.stderr)
        for words in ((), (str(pid),)):
            last = self.run_cubfc("last", *words)
            self.assertEqual((last.returncode, last.stdout), (1, ""))
        self.assertIn(f"nothing is known of process {pid}: it told its summary when it ended", last.stderr)
        self.assertEqual(self.files(), [])

    def test_the_next_run_says_it_once(self):
        _, pid = self.end_as("SIGKILL")
        line = f"cubfc: program.py (process {pid}) ended without a summary, with a peak of 100.0 MiB; `cubfc last {pid}` tells more\n"
        self.assertIn(line, self.end_as("exit")[0].stderr)
        self.assertNotIn("ended without", self.end_as("exit")[0].stderr)
        _, pid = self.end_as("SIGKILL")
        self.assertNotIn("ended without", self.end_as("exit", "-q")[0].stderr)
        self.output_of("last")  # who has asked knows it
        self.assertNotIn("ended without", self.end_as("exit")[0].stderr)

    def test_what_was_no_run_is_not_told_by_a_run(self):
        process = subprocess.run([*self.python, "SIGKILL"], env=self.environment | {"LD_PRELOAD": self.library}, check=False,
                                 capture_output=True, text=True, timeout=PATIENCE, **self.user)
        self.assertNotIn("ended without", self.end_as("exit")[0].stderr)
        self.assertIn(f"(process {int(process.stdout)})", self.output_of("last"))

    def test_a_process_that_runs_is_not_last(self):
        process, pid = self.open_run()
        last = self.run_cubfc("last", str(pid))
        self.assertEqual((last.returncode, last.stderr), (1, f"cubfc: process {pid} still runs: `cubfc top` shows it\n"))
        process.communicate("", timeout=PATIENCE)

    def test_a_pipeline_and_its_children_are_told_by_the_run(self):
        shell = f"{' '.join(self.python)} SIGKILL; {' '.join(self.python)} SIGKILL | cat; true"
        process = subprocess.Popen(self.run_words("--", "sh", "-c", shell), env=self.environment, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True, **self.user)
        out, _ = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0)
        told = self.output_of("last", str(process.pid))
        self.assertEqual(sorted(re.findall(r"\(process (\d+)\)", told)), sorted(out.split()))

    def test_only_the_newest_are_kept(self):
        pids = [self.end_as("SIGKILL", "-q")[1] for _ in range(19)]
        told = re.findall(r"\(process (\d+)\)", self.output_of("last", "--all"))
        self.assertEqual(len(self.files()), 17)  # the last one has made its own beside 16
        self.assertEqual(told[0], str(pids[-1]))
        self.assertLessEqual(set(told), {str(pid) for pid in pids})

    def test_what_is_in_the_file_may_be_anything(self):
        self.end_as("SIGKILL")
        [file] = self.files()
        whole = file.read_bytes()
        for number, contents in enumerate((b"", whole[:1000], b"\xff" * len(whole), whole[:64] + b"\xff" * (len(whole) - 64))):
            self.write(file.with_name(file.name[:-4] + f"{number:04x}"), contents)
        done = self.run_cubfc("last", "--all")
        self.assertEqual(done.returncode, 0)
        self.assertIn(PEAK, done.stdout)
        self.assertNotRegex(done.stdout + done.stderr, r"[\x00-\x09\x0b-\x1f]")

    def test_the_summary_file_is_there_before_a_kill(self):
        for name in ("summary.json", "summary.txt"):
            path = self.folder / name
            process, pid = self.open_run(CUBFC_SUMMARY=str(path))
            wait_until(path.exists, lambda: name)
            os.kill(pid, signal.SIGKILL)
            process.wait(timeout=PATIENCE)
            text = path.read_text(encoding="utf-8")
            if name.endswith("json"):
                told = json.loads(text)
                self.assertEqual((told["pid"], told["ended"], told["devices"][0]["peak_bytes_in_use"]), (pid, False, 100 << 20))
            else:
                self.assertRegex(text, r"^cubfc: GPU 0: peak 100\.0 MiB of 100\.0 MiB, 1 allocation")
                self.assertTrue(text.endswith("cubfc: so far: the program went on when this was written, or was killed\n"))

    def test_at_the_end_it_is_whole(self):
        path = self.folder / "summary.json"
        process, _ = self.open_run(CUBFC_SUMMARY=str(path))
        wait_until(path.exists, lambda: "the file")
        process.communicate("", timeout=PATIENCE)
        self.assertIs(json.loads(path.read_text(encoding="utf-8"))["ended"], True)
        self.assertEqual([each.name for each in self.folder.glob("summary*")], ["summary.json"])

    def test_a_pipe_gets_one_summary(self):
        path = self.folder / "pipe.json"
        os.mkfifo(path, 0o600)
        self.give(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        beside = self.folder / "beside.json"
        process, pid = self.open_run(CUBFC_SUMMARY=str(path))
        other, _ = self.open_run(CUBFC_SUMMARY=str(beside))
        wait_until(beside.exists, lambda: "a summary of a program that began later")
        process.communicate("", timeout=PATIENCE)
        other.communicate("", timeout=PATIENCE)
        text = os.read(reader, 1 << 20).decode()
        self.assertEqual((text.count("\n"), json.loads(text)["pid"], json.loads(text)["ended"]), (1, pid, True))

    def test_wait_tells_at_once_and_ends_as_the_program(self):
        for how, status in {**WAYS, "exit": 0}.items():
            with self.subTest(how=how):
                done, pid = self.end_as(how, "--wait")
                self.assertEqual(done.returncode, status)
                ends = [line for line in done.stderr.splitlines() if "GPU 0: peak" in line]
                self.assertEqual(len(ends), 1)
                self.assertIn(PEAK.split(")")[0], ends[0])
                self.assertEqual(how != "exit", f"(process {pid}), since" in done.stderr)
                self.assertNotIn("ended without", self.end_as("exit")[0].stderr)
        self.assertEqual(self.end_as("SIGKILL", "--wait", "-q")[0].stderr, "")

    def test_wait_passes_signals_on(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            process, pid = self.open_run("--wait")
            self.assertNotEqual(process.pid, pid)
            os.kill(process.pid, number)
            process.wait(PATIENCE)  # communicate() would close what the program reads, which ends it, too
            _, said = process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, -number)
            self.assertIn(f"(process {pid}), since", said)

    def test_wait_where_children_are_not_told_of(self):
        done = subprocess.run(self.run_words("--wait", "-q", "--", "sh", "-c", "exit 3"), env=self.environment, timeout=PATIENCE, check=False,
                              preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN), **self.user)
        self.assertEqual(done.returncode, 3)

    def test_wait_and_an_alarm_that_was_set_before(self):
        process, pid = self.open_run(words=["perl", "-e", "alarm 1; exec @ARGV", *self.run_words("--wait", "-q", "--", *self.python, "wait")])
        process.wait(timeout=PATIENCE)
        self.assertEqual(process.returncode, -signal.SIGALRM)

    def test_who_kills_the_command_kills_the_program(self):
        process, pid = self.open_run("--wait")
        process.kill()
        wait_until(lambda: not pathlib.Path(f"/proc/{pid}").exists(), lambda: "the program's end")

    def test_a_terminal_that_hangs_up_ends_the_program(self):
        child, terminal = pty.fork()
        if child == 0:
            os.execve(self.cubfc, self.run_words("--wait", "-q", "--", *self.python, "wait"), self.environment)
        seen = b""
        while b"\n" not in seen:
            seen += os.read(terminal, 4096)
        os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), -signal.SIGHUP)
        wait_until(lambda: not pathlib.Path(f"/proc/{int(seen)}").exists(), lambda: "the program's end")

    def test_who_reads_the_program_does_not_wait_for_the_command(self):
        process = subprocess.Popen(self.run_words("--wait", "-q", "--", "sh", "-c", "echo said; exec >&-; exec sleep 1000"), stdout=subprocess.PIPE,
                                   env=self.environment, text=True, start_new_session=True, **self.user)
        self.addCleanup(self.close, process)
        self.assertEqual(process.stdout.read(), "said\n")
        self.assertIsNone(process.poll())

    def test_workers_that_were_forked_are_not_told_by_the_next_run(self):
        forking = self.folder / "forking.py"
        self.write(forking, b"import os, runpy, sys\n"
                            b"if os.fork() == 0:\n"
                            b"    sys.argv[1:] = ['_exit']\n"
                            b"    runpy.run_path(sys.argv[0].replace('forking', 'program'), run_name='__main__')\n"
                            b"os.wait()\n")
        done = subprocess.run(self.run_words("--", "python3", "-B", str(forking)), env=self.environment, capture_output=True, text=True,
                              timeout=PATIENCE, check=False, **self.user)
        self.assertEqual(done.returncode, 0, done.stderr)
        pid = int(done.stdout)
        self.assertNotIn("ended without", self.end_as("exit")[0].stderr)
        self.assertIn(f"(process {pid})", self.output_of("last", str(pid)))

    def test_a_summary_stays_where_it_was_when_the_program_began(self):
        program = self.folder / "moving.py"
        self.write(program, PROGRAM.replace("how = sys.argv[1]", "os.chdir('/'); how = 'exit'").encode())
        subprocess.run(["python3", "-B", str(program)], cwd=self.folder, check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE,
                       env=self.environment | {"LD_PRELOAD": self.library, "CUBFC_SUMMARY": "here.json"}, **self.user)
        self.assertIs(json.loads((self.folder / "here.json").read_text(encoding="utf-8"))["ended"], True)

    def test_wait_stops_and_goes_on_with_the_program(self):
        process, pid = self.open_run("--wait")

        def state(of):
            return pathlib.Path(f"/proc/{of}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: state(process.pid) == "T" == state(pid), lambda: f"{state(process.pid)} {state(pid)}")
        os.kill(process.pid, signal.SIGCONT)
        wait_until(lambda: "T" not in (state(process.pid), state(pid)), lambda: f"{state(process.pid)} {state(pid)}")
        process.communicate("", timeout=PATIENCE)
        self.assertEqual(process.returncode, 0)

    def test_wait_and_what_cannot_be_executed(self):
        for words, status in ((["/nowhere/at/all"], 127), ([str(self.folder)], 126)):
            done = subprocess.run(self.run_words("--wait", "--", *words), env=self.environment, capture_output=True, text=True,
                                  timeout=PATIENCE, check=False, **self.user)
            self.assertEqual(done.returncode, status)
            self.assertEqual(done.stderr.count("cubfc: run: "), 1, done.stderr)

    def test_ctrl_c_of_a_terminal_reaches_the_program_once(self):
        counts = ("import signal, sys, time\n"
                  "got = []\n"
                  "signal.signal(signal.SIGINT, lambda *_: got.append(1))\n"
                  "print('ready', flush=True)\n"
                  "signal.sigtimedwait([], 0)\n"
                  "while not got: time.sleep(0.01)\n"
                  "sys.stdin.readline()\n"
                  "print('got', len(got), flush=True)\n")
        script = self.folder / "counts.py"
        self.write(script, counts.encode())
        for flags in ((), ("--wait",)):
            child, terminal = pty.fork()
            if child == 0:
                os.execve(self.cubfc, self.run_words(*flags, "-q", "--", "python3", "-B", str(script)), self.environment)
            seen = b""
            try:
                while b"ready" not in seen:
                    seen += os.read(terminal, 4096)
                os.write(terminal, b"\x03")
                os.write(terminal, b"\n")
                while b"got" not in seen:
                    seen += os.read(terminal, 4096)
                while not seen.endswith(b"\n") or seen.rpartition(b"got")[2].strip() == b"":
                    seen += os.read(terminal, 4096)
                self.assertIn(b"got 1", seen)
            finally:
                os.close(terminal)
                os.waitpid(child, 0)

    def test_lines_of_several_ranks_say_whose_they_are(self):
        for more in ({"RANK": "3", "WORLD_SIZE": "4"}, {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4"},
                     {"PMI_RANK": "3", "PMI_SIZE": "4"}, {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4"}):
            done, _ = self.end_as("exit", "--show-stats", **more)
            ours = [line for line in done.stderr.splitlines() if "GPU 0" in line]
            self.assertGreaterEqual(len(ours), 2)
            self.assertEqual([line for line in ours if not line.startswith("cubfc: rank 3: ")], [])
        for more in ({"RANK": "0", "WORLD_SIZE": "1"}, {"RANK": "3"}, {"RANK": "x\n", "WORLD_SIZE": "4"}):
            done, _ = self.end_as("exit", **more)
            self.assertNotIn("rank", done.stderr)


if __name__ == "__main__":
    run_tests(__doc__)
