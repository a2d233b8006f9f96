#!/usr/bin/env python3
"""`cubfc top` on a machine that has a driver of the kernel's, of which NVML tells what others hold, and several users:
in a mount namespace with /proc/driver, /dev/shm and /run of the test's own.

usage: machine_test.py CUBFC LIBRARY DRIVER_FOLDER PROGRAMS_FOLDER
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from under_cubfc import PATIENCE, UnderCubfc, run_tests, wait_until

INSIDE = "CUBFC_TEST_INSIDE"
MIB = 1 << 20
ASK_FOR_PLACE = ("import ctypes; d = ctypes.CDLL('libcuda.so.1'); b = ctypes.create_string_buffer(32); d.cuInit(0); "
                 "assert d.cuDeviceGetPCIBusId(b, 32, 0) == 0; print(b.value.decode())")


class Gpus(UnderCubfc):
    """The driver's folder in /proc lists GPUs as the test wants."""

    def setUp(self):
        super().setUp()
        self.gpus = pathlib.Path("/proc/driver/nvidia/gpus")
        self.machine = {"LD_LIBRARY_PATH": f"{self.driver}:{pathlib.Path(self.driver) / 'libraries'}",
                        "STANDIN_MEMORY": "4GiB", "STANDIN_SHARED": str(self.folder / "devices")}
        self.addCleanup(subprocess.run, ["rm", "-rf", "/proc/driver/nvidia"], check=True)

    def put_gpu(self, uuid, place=None):
        place = place or subprocess.run([sys.executable, "-c", ASK_FOR_PLACE], env=self.environment | {"LD_LIBRARY_PATH": self.driver},
                                        check=True, capture_output=True, text=True, timeout=PATIENCE).stdout.strip()
        folder = self.gpus / place
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t\t NVIDIA\nIRQ:   \t\t 16\nGPU UUID: \t {uuid}\nVideo BIOS: \t ??\n")

    def look(self, **more):
        return json.loads(self.output_of("top", "--once", "--json", **self.machine | more))

    def start_bare(self, *words):
        """Without cubfc."""
        return self.start(*words, LD_PRELOAD="")

    def test_what_others_hold_is_what_the_driver_has_given_beyond_what_is_taken(self):
        process = self.start("fill:700", "wait", CUBFC_PREALLOCATE="false")
        gpu = self.look()["gpus"][0]
        self.assertEqual((gpu["bytes_others"], gpu["bytes_free"]), (None, None))
        self.assertEqual(gpu["others_unknown"], "there is no /proc/driver/nvidia/gpus")
        self.put_gpu(gpu["uuid"])
        alone = self.look()["gpus"][0]
        self.assertEqual(alone["others_unknown"], None)
        self.start_bare("fill:500", "wait")
        gpu = self.look()["gpus"][0]
        self.assertEqual(gpu["bytes_in_use"], 700 * MIB)
        self.assertGreaterEqual(gpu["bytes_others"] - alone["bytes_others"], 500 * MIB)  # and a context
        self.assertLess(gpu["bytes_others"] - alone["bytes_others"], 1000 * MIB)
        parts = ("bytes_taken", "bytes_others", "bytes_free")  # the driver keeps some for itself
        self.assertEqual(sum(gpu[part] for part in parts), sum(alone[part] for part in parts))
        self.assertAlmostEqual(sum(gpu[part] for part in parts), 4096 * MIB, delta=64 * MIB)
        self.assertRegex(self.output_of("top", "--once", LC_ALL="C", **self.machine),
                         r"\n\[#+o+\.+\]  # 700\.0 MiB in use  = 0 B unused  o \d+\.\d MiB others  \. 2\.\d\d GiB free\n")
        # Of one process alone the same: what the other one under cubfc holds is not others'.
        other = self.start("fill:300", "wait", CUBFC_PREALLOCATE="false")
        one = json.loads(self.output_of("top", "--once", "--json", "--pid", str(process.pid), **self.machine))
        self.assertEqual([each["pid"] for each in one["processes"]], [process.pid])
        self.assertEqual(one["gpus"], self.look()["gpus"])
        self.assertEqual(one["gpus"][0]["bytes_in_use"], 1000 * MIB)
        self.end(other)

    def test_a_limit_in_tops_own_environment_changes_nothing(self):
        self.start("fill:100", "wait", CUBFC_PREALLOCATE="false")
        self.put_gpu(self.look()["gpus"][0]["uuid"])
        plain = self.look()["gpus"]
        self.assertEqual(self.look(LD_PRELOAD=self.library, CUBFC_MEM_LIMIT="1GiB")["gpus"], plain)

    def test_where_nvml_does_not_tell_it_is_said_why(self):
        self.start("fill:100", "wait")
        uuid = self.look()["gpus"][0]["uuid"]
        self.put_gpu("GPU-00000000-0000-0000-0000-000000000000")
        for more, why in (({}, "the driver names no such GPU"), ({"LD_LIBRARY_PATH": self.driver}, "libnvidia-ml.so.1 cannot be loaded"),
                          ({"LD_LIBRARY_PATH": self.machine["LD_LIBRARY_PATH"].split(":")[1]}, "NVML answers 9")):
            gpu = self.look(**more)["gpus"][0]
            self.assertEqual((gpu["others_unknown"], gpu["bytes_others"]), (why, None))
            text = self.output_of("top", "--once", **self.machine | more)
            self.assertIn(f" others or free, not known ({why})\n", text)
        self.put_gpu(uuid, "no place on any bus")
        self.assertEqual(self.look()["gpus"][0]["others_unknown"], "NVML answers 6")

    def test_nobody_is_asked_about_gpus_that_no_process_uses(self):
        self.put_gpu("GPU-00000000-0000-0000-0000-000000000000")
        information = next(self.gpus.iterdir()) / "information"
        contents = information.read_bytes()
        information.unlink()
        os.mkfifo(information)
        fifo = os.open(information, os.O_RDWR | os.O_NONBLOCK)
        self.addCleanup(os.close, fifo)
        os.write(fifo, contents)
        self.assertEqual(self.look()["gpus"], [])
        self.assertEqual(os.read(fifo, 4096), contents)  # nobody has read there
        os.write(fifo, contents)
        self.start("fill:100", "wait")
        self.assertEqual(self.look()["gpus"][0]["others_unknown"], "NVML has not answered")
        with self.assertRaises(BlockingIOError):
            os.read(fifo, 4096)

    def test_an_nvml_that_hangs_keeps_nobody(self):
        self.start("fill:100", "wait")
        self.put_gpu(self.look()["gpus"][0]["uuid"])
        mark = f"top-of-{os.getpid()}"
        look = self.look(STANDIN_LATENCY="cuInit=1000000ms", MARK=mark)
        self.assertEqual(look["gpus"][0]["others_unknown"], "NVML has not answered")

        def is_marked(pid):
            try:
                return mark.encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:
                return False

        wait_until(lambda: not [pid for pid in os.listdir("/proc") if pid.isdigit() and is_marked(pid)],
                   lambda: "the end of the process that asks NVML")


class Users(UnderCubfc):
    """Root, and two users of whom nobody else has processes."""

    def setUp(self):
        super().setUp()
        if not self.user:
            self.skipTest("needs root")
        self.ids = [self.user["user"], self.user["user"] + 1]
        self.folder.chmod(0o755)

    def start_as(self, user, *words):
        del self.environment["XDG_RUNTIME_DIR"]
        before, self.user = self.user, self.user | {"user": user}
        try:
            return self.start(*words, STANDIN_SHARED=f"/dev/shm/devices-{user}")
        finally:
            self.user = before
            self.environment["XDG_RUNTIME_DIR"] = str(self.runtime)

    def output_for_root(self, *words):
        before, self.user = self.user, {}
        try:
            return self.output_of(*words)
        finally:
            self.user = before

    def test_root_sees_whose_each_process_is(self):
        processes = {user: self.start_as(user, "fill:100", "wait") for user in self.ids}
        told = json.loads(self.output_for_root("top", "--once", "--json"))["processes"]
        self.assertEqual({each["pid"]: (each["uid"], each["user"]) for each in told},
                         {process.pid: (user, str(user)) for user, process in processes.items()})
        text = self.output_for_root("top", "--once")
        self.assertRegex(text, r"(?m)^ +PID USER +IN USE ")
        for user, process in processes.items():
            self.assertRegex(text, rf"(?m)^ +{process.pid} {user} +100\.0 MiB ")

    def test_a_user_sees_no_column_of_users(self):
        self.start("fill:100", "wait")
        self.assertRegex(self.output_of("top", "--once"), r"(?m)^ +PID +IN USE ")
        told = json.loads(self.output_of("top", "--once", "--json"))["processes"]
        self.assertEqual([(each["uid"], each["user"]) for each in told], [(self.ids[0], str(self.ids[0]))])

    def test_one_user_alone_has_a_column_when_root_looks(self):
        process = self.start_as(0, "fill:100", "wait")
        self.assertRegex(self.output_for_root("top", "--once"), rf"(?m)^ +{process.pid} root +100\.0 MiB ")


if __name__ == "__main__":
    if not os.environ.get(INSIDE):
        SCRIPT = "".join(f"mount -t tmpfs none {each} && " for each in ("/proc/driver", "/dev/shm", "/run"))
        SCRIPT += 'chmod 1777 /dev/shm && exec "$@"'
        WORDS = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--map-root-user", "--user"]), "sh", "-c", SCRIPT, "sh"]
        if subprocess.run([*WORDS, "true"], capture_output=True, check=False).returncode != 0:
            print("no mount namespace can be made")
            sys.exit(77)
        os.execvpe(WORDS[0], [*WORDS, sys.executable, *sys.argv], os.environ | {INSIDE: "1"})
    run_tests(__doc__)
