#!/usr/bin/env python3
"""`cubfc check`: what is in order, what is wrong and what then helps, by lines, JSON and exit status.

usage: check_test.py CUBFC LIBRARY DRIVER_FOLDER FAULTY_DRIVER_FOLDER
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from clean_environment import clean_environment  # noqa: E402

if len(sys.argv) < 5:
    sys.exit(__doc__)
CUBFC, LIBRARY, DRIVER, FAULTY = map(os.path.abspath, sys.argv[1:5])
PATIENCE = 120


class Check(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cubfc-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = clean_environment(LD_LIBRARY_PATH=DRIVER, STANDIN_MEMORY="256MiB", STANDIN_DEVICES="2",
                                             XDG_RUNTIME_DIR=str(self.folder))

    def check(self, *words, **more):
        return subprocess.run([CUBFC, "check", *words], env=self.environment | more, capture_output=True, text=True,
                              timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL)

    def problems(self, *words, **more):
        """After it has said the same in lines."""
        lines = self.check(*words, **more)
        done = self.check("--json", *words, **more)
        told = json.loads(done.stdout)
        self.assertEqual((done.returncode, lines.returncode), (1 if told["problems"] else 0,) * 2, done.stdout)
        self.assertEqual(done.stderr, "")
        said = [line[10:] for line in lines.stdout.splitlines() if line.startswith("problem   ")]
        self.assertEqual(said, told["problems"])
        return "\n".join(said)

    def with_fault(self, fault, *words):
        return self.problems(*words, LD_LIBRARY_PATH=FAULTY, FAULT=fault)


class InOrder(Check):
    def test_all(self):
        done = self.check("ls")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        for line in (f"library   {LIBRARY}  loads, ", "driver    ", "GPU 0     ", "GPU 1     1 MiB allocated by the library",
                     "program   "):
            self.assertIn("\n" + line, "\n" + done.stdout)

    def test_json(self):
        told = json.loads(self.check("--json", "ls", CUBFC_MEM_LIMIT="100MiB").stdout)
        self.assertEqual(told["problems"], [])
        self.assertEqual([gpu["total_bytes"] for gpu in told["gpus"]], [256 << 20] * 2)
        self.assertEqual(told["settings"], {"CUBFC_MEM_LIMIT": "100MiB"})
        self.assertEqual(told["library"]["path"], LIBRARY)

    def test_it_leaves_nothing(self):
        names = {"CUBFC_LOG_FILE", "CUBFC_SUMMARY", "CUBFC_TRACE", "CUBFC_OOM_REPORT"}
        self.check("--fill", "0.5", **{name: str(self.folder / name) for name in names})
        self.assertEqual([path.name for path in self.folder.rglob("*") if path.is_file()], [])

    def test_under_cubfc(self):
        self.assertEqual(self.problems(LD_PRELOAD=LIBRARY, CUBFC_MEM_LIMIT="64MiB"), "")

    def test_in_every_mode(self):
        for settings in ({"CUBFC_ALLOCATOR": "vmm"}, {"CUBFC_ALLOCATOR": "cuda_async"}, {"CUBFC_ALLOCATOR": "platform"},
                         {"CUBFC_FREE": "deferred"}, {"CUBFC_PREALLOCATE": "whole"}, {"CUBFC_MEM_FRACTION": "0.5"},
                         {"CUBFC_UNIFIED_MEMORY": "true"}, {"CUBFC_TRACK_CALLERS": "false"}, {"CUBFC_SHARE_STATS": "false"}):
            self.assertEqual(self.problems(**settings), "", settings)


class Wrong(Check):
    def test_no_driver(self):
        self.assertIn("--gpus all", self.problems(LD_LIBRARY_PATH=""))

    def test_drivers_that_are_broken(self):
        for fault, told in (("crash", "ended by a signal"), ("none", "shows no GPU"), ("old", "needs 12.0"),
                            ("mismatch", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"), ("context", "no memory for a context")):
            if fault == "mismatch":
                told = "libcuda.so.1 is of another version"
            self.assertIn(told, self.with_fault(fault), fault)

    def test_a_driver_that_hangs(self):
        done = self.check("--timeout", "1", LD_LIBRARY_PATH=FAULTY, FAULT="hang")
        self.assertIn("problem   driver: it hangs: it has not answered within 1 s (--timeout)", done.stdout)
        self.assertIn("libcubfc.so  loads, ", done.stdout)  # which asks no driver

    def test_control_characters_of_a_driver_stay_there(self):
        done = self.check(LD_LIBRARY_PATH=FAULTY)
        self.assertNotIn("\033", done.stdout)
        json.loads(self.check("--json", LD_LIBRARY_PATH=FAULTY).stdout)

    def test_libraries_that_cannot_be_preloaded(self):
        broken = self.folder / "libcubfc.so"
        broken.write_bytes(pathlib.Path(LIBRARY).read_bytes()[:5000])
        self.assertRegex(self.problems("--library", str(broken)), "cannot be preloaded|Bus error")
        broken.write_text("hello" * 1000)
        self.assertIn("invalid ELF header", self.problems("--library", str(broken)))
        self.assertIn("there is no file", self.problems("--library", str(self.folder / "none")))

    def test_a_library_that_is_none_of_ours(self):
        maps = pathlib.Path("/proc/self/maps").read_text().splitlines()
        another = next(line.split()[-1] for line in maps if "/libc.so" in line)
        self.assertIn("it is not cubfc's", self.problems("--library", another))

    def test_settings(self):
        for settings, told in (({"CUBFC_MEM_LIMIT": "lots"}, "cannot be used as a limit"),
                               ({"CUBFC_FREE": "never"}, "CUBFC_FREE"), ({"CUBFC_MEM_LIMT": "1GiB"}, "CUBFC_MEM_LIMIT"),
                               ({"CUBFC_DISABLE": "1"}, "does nothing"),
                               ({"CUBFC_MEM_LIMIT": "100KiB"}, "1 MiB cannot be had")):
            self.assertIn(told, self.problems(**settings))

    def test_programs(self):
        self.assertIn("no such program", self.problems("no-such-program"))
        self.assertIn("Permission denied", self.problems("/etc/passwd"))
        static = next((path for path in ("/sbin/ldconfig", "/bin/busybox") if os.access(path, os.X_OK)), None)
        if static:
            self.assertIn("linked statically", self.problems(static))
            self.assertIn("linked statically", self.problems("--", static, "--its", "-own", "words"))

    def test_command_lines(self):
        for words in (["--fill", "2"], ["--fill", "0"], ["--fill", "x"], ["--fill", "0.5", "--step", "0"],
                      ["--fill", "0.5", "--step", "x"], ["--gpu", "-1"], ["--timeout", "0"], ["--no-such"]):
            done = self.check(*words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertNotEqual(done.stderr, "")


class Fill(Check):
    def test_in_steps(self):
        done = self.check("--fill", "0.5", "--step", "50MiB", "--gpu", "1")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("GPU 1     128.0 MiB of 256.0 MiB taken in 3 steps, written, read back, given back\n", done.stdout)
        self.assertNotIn("GPU 0     128.0 MiB", done.stdout)

    def test_shares(self):
        for share in ("1", "100%", "0.001", "0.37"):
            self.assertEqual(self.problems("--fill", share, "--step", "3000001"), "")

    def test_a_limit_of_cubfcs_does_not_count(self):
        self.assertEqual(self.problems("--fill", "0.9", LD_PRELOAD=LIBRARY, CUBFC_MEM_LIMIT="64MiB"), "")

    def test_memory_that_others_have(self):
        self.assertIn("only 32.00 MiB of 64.00 MiB", self.with_fault("full", "--fill", "1", "--step", "4MiB"))

    def test_memory_that_is_faulty(self):
        self.assertIn("did not hold what was written", self.with_fault("bit", "--fill", "0.9", "--step", "32MiB"))
        self.assertIn("did not hold what was written", self.with_fault("alias", "--fill", "0.9", "--step", "8MiB"))

    def test_no_such_gpu(self):
        self.assertIn("there is no GPU 7", self.problems("--fill", "0.5", "--gpu", "7"))

    def test_who_ends_it_ends_all_of_it(self):
        process = subprocess.Popen([CUBFC, "check", "--timeout", "1000"], stdout=subprocess.DEVNULL,
                                   env=self.environment | {"LD_LIBRARY_PATH": FAULTY, "FAULT": "hang"})
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        deadline = time.monotonic() + PATIENCE
        while not (child := children.read_text().split()):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=PATIENCE)
        while os.path.exists(f"/proc/{child[0]}") and "State:\tZ" not in pathlib.Path(f"/proc/{child[0]}/status").read_text():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
