#!/usr/bin/env python3
"""Stacks in a report, as the programs themselves know them: of every CPython that is found here, and of C++.

usage: stacks_test.py CUBFC LIBRARY DRIVER_FOLDER STACKS_PROGRAM LYING_PYTHON [unittest's words]

Pythons are those in PATH, below ~/.pyenv/versions, and in CUBFC_TEST_PYTHONS (a list of paths with colons between).
"""
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from clean_environment import clean_environment  # noqa: E402

CUBFC, LIBRARY, DRIVER, PROGRAM, LYING_PYTHON = map(os.path.abspath, sys.argv[1:6])
HERE = pathlib.Path(__file__).resolve().parent
KNOWN = [(3, minor) for minor in range(9, 16)]
PATIENCE = 120


def pythons():
    """{(3, 11): its path}, of the versions that are read."""
    named = os.environ.get("CUBFC_TEST_PYTHONS", "").split(":")
    found = [path for path in (*named, sys.executable, *glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python3")),
                               *(shutil.which(f"python3.{minor}") or "" for _, minor in KNOWN)) if path]
    versions = {}
    for path in found:
        asked = subprocess.run([path, "-c", "import sys, ctypes; print(*sys.version_info[:2])"], capture_output=True, text=True,
                               check=False)
        version = tuple(map(int, asked.stdout.split())) if asked.returncode == 0 else None
        if version in KNOWN:
            versions.setdefault(version, path)
    return versions


class Stacks(unittest.TestCase):
    maxDiff = 4000

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.trace = self.folder / "run.cubfc"

    def record(self, *command, depth=64, **more):
        environment = clean_environment(LD_LIBRARY_PATH=f"{DRIVER}:{more.pop('libraries', '')}", LD_PRELOAD=LIBRARY, STANDIN_MEMORY="64MiB",
                                        CUBFC_TRACE=str(self.trace), CUBFC_TRACE_STACKS=str(depth), PYTHONDONTWRITEBYTECODE="1") | more
        return subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)

    def report(self, *words):
        return subprocess.run([CUBFC, "report", self.trace, *words], capture_output=True, text=True, timeout=PATIENCE, check=False)

    def told(self):
        done = self.report("--format", "json", "-o", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def stacks(self, kind=None):
        told = self.told()
        return [[told["frames"][n] for n in stack["frames"] if kind in (None, told["frames"][n]["kind"])] for stack in told["stacks"]]

    def test_each_python_is_read_as_it_sees_itself(self):
        found = pythons()
        self.assertTrue(found)
        for version, path in sorted(found.items()):
            with self.subTest(python=".".join(map(str, version))):
                output = self.folder / f"{version[1]}.json"
                libraries = pathlib.Path(path).resolve().parents[1] / "lib"
                done = self.record(path, HERE / "stacks_program.py", output, libraries=libraries)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                expected = {tuple(map(tuple, stack[:64])) for stack in json.loads(output.read_text(encoding="utf-8"))}
                told = {tuple((frame["file"], frame["line"], frame["function"]) for frame in stack)
                        for stack in self.stacks("python")}
                self.assertEqual(sorted(told - expected), [])
                self.assertEqual(sorted(expected - told), [])
        print("read: Python", *(".".join(map(str, version)) for version in sorted(found)))

    def test_the_interpreters_own_frames_are_not_there(self):
        done = self.record(sys.executable, HERE / "stacks_program.py", self.folder / "out.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        for stack in self.stacks():
            kinds = [frame["kind"] for frame in stack]
            first = kinds.index("python")
            self.assertEqual(set(kinds[first:]), {"python"})
            self.assertFalse([frame for frame in stack if "_PyEval" in frame["function"]])

    def test_a_leak_is_told_by_file_and_line_in_the_first_screen(self):
        leak = self.folder / "leaking.py"
        leak.write_text("import ctypes, runpy, sys\n"
                        "sys.argv[1:] = ['/dev/null']\n"
                        f"of = runpy.run_path({str(HERE / 'stacks_program.py')!r})\n"
                        "kept = []\n"
                        "def train_step(n):\n"
                        "    address = ctypes.c_uint64()\n"
                        "    of['cuda'].cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 20))\n"
                        "    kept.append(address)\n"
                        "for n in range(20):\n"
                        "    train_step(n)\n", encoding="utf-8")
        done = self.record(sys.executable, leak, depth=16)
        self.assertEqual(done.returncode, 0, done.stderr)
        text = self.report("--text").stdout
        first_screen = text.splitlines()[:24]
        self.assertRegex("\n".join(first_screen), r"\n  leaking\.py:7 \(train_step\) +20\.00 MiB +20 +20\.00 MiB +20\n")
        self.assertEqual([line for line in text.splitlines() if len(line) > 80], [])
        self.assertIn("leaking.py:10 > leaking.py:7 (train_step)", text)

    def test_functions_of_cpp_have_names_and_lines(self):
        self.assertEqual(self.record(PROGRAM).returncode, 0)
        [stack] = self.stacks()
        source = (HERE / "stacks_program.cpp").read_text(encoding="utf-8").splitlines()
        line = {name: next(n for n, text in enumerate(source, 1) if text.endswith(f"// LINE of {name}"))
                for name in ("grow", "forward", "main")}
        self.assertEqual([frame["line"] for frame in stack[:3]], [line["grow"], line["forward"], line["main"]])
        for frame, function in zip(stack, ("layers::grow(", "layers::forward<", "main")):
            self.assertIn(function, frame["function"])
            self.assertTrue(frame["file"].endswith("stacks_program.cpp"), frame["file"])
        self.assertNotIn(0, [frame["offset"] for frame in stack])
        self.assertEqual(self.told()["lines"][0]["line"].rpartition("/")[2].split(" ")[0], f"stacks_program.cpp:{line['grow']}")

    def test_without_debug_information_symbols_name_functions(self):
        program = self.folder / "stripped"
        subprocess.run(["strip", "--strip-debug", "-o", program, PROGRAM], check=True)
        self.assertEqual(self.record(program).returncode, 0)
        functions = [frame["function"] for frame in self.stacks()[0]]
        self.assertIn("layers::forward<", functions[0])
        self.assertEqual(functions[1], "main")
        self.assertIn("forward (stripped)", self.report("--text").stdout)

    def test_what_is_another_build_or_gone_is_not_named_and_said(self):
        program = self.folder / "program"
        shutil.copy(PROGRAM, program)
        self.assertEqual(self.record(program).returncode, 0)
        for change, why in ((lambda: shutil.copy(sys.executable, program), "is another build than was recorded"),
                            (lambda: program.write_bytes(b"\x7fELF" + bytes(10)), "is no program or library that can be read"),
                            (lambda: program.write_bytes(PROGRAM_BYTES[:len(PROGRAM_BYTES) // 3]), None),
                            (program.unlink, "No such file or directory"),
                            (lambda: os.mkfifo(program), "is no file")):
            with self.subTest(why=why):
                change()
                done = self.report("--format", "json", "-o", "-")
                self.assertEqual(done.returncode, 0)
                if why:
                    self.assertIn(f"cubfc: {program}: {why}; its functions are not named\n", done.stderr)
                    frame = json.loads(done.stdout)["frames"][0]
                    self.assertEqual((frame["function"], frame["object"]), ("", str(program)))
                    self.assertIn("program+0x", self.report("--text").stdout)

    def test_pythons_that_are_not_known_leave_native_frames_and_say_so(self):
        for version, why in (("3.16.0 (main)", "Python 3.16.0 is not known (CPython 3.9 to 3.15 are)"),
                             ("3.13.1 free-threading build", "Python 3.13.1 is a free-threaded build, whose frames are not read")):
            done = self.record(PROGRAM, LYING_PYTHON, LYING_PYTHON=version)
            self.assertEqual((done.returncode, done.stderr),
                             (0, f"cubfc: CUBFC_TRACE_STACKS: stacks are without Python's frames: {why}\n"))
            self.assertEqual(len(self.stacks("native")[0]), len(self.stacks()[0]))
            self.assertIn(why, self.report("--text").stdout.replace("\n            ", " "))

    def test_a_thread_that_python_does_not_know_has_native_frames(self):
        done = self.record(PROGRAM, LYING_PYTHON)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(self.stacks("native")[0])

    def test_addresses_that_are_none_end_nothing(self):
        for version in ("3.9.1", "3.10.1", "3.11.1", "3.12.1"):
            for state in ("1", "0x10", "0xffffffffffffff00", "0x7fffffffe000"):
                done = self.record(PROGRAM, LYING_PYTHON, LYING_PYTHON=version, LYING_STATE=state)
                self.assertEqual(done.returncode, 0, (version, state))
                self.assertEqual(done.stderr, "cubfc: CUBFC_TRACE_STACKS: stacks are without Python's frames: "
                                 f"Python {version} is built in a way that is not known\n", (version, state))

    def test_a_python_that_is_half_loaded_is_left_alone(self):
        libraries = {glob.glob(f"{pathlib.Path(path).resolve().parents[1]}/lib/libpython{major}.{minor}.so*")[-1:][0]
                     for (major, minor), path in pythons().items()
                     if glob.glob(f"{pathlib.Path(path).resolve().parents[1]}/lib/libpython{major}.{minor}.so*")}
        for library in sorted(libraries) or [LYING_PYTHON]:
            done = self.record(PROGRAM, library, "again and again", depth=8)
            self.assertEqual((done.returncode, done.stderr), (0, ""), library)

    def test_calls_of_one_line_are_one_line(self):
        program = self.folder / "one_line.py"
        program.write_text("import ctypes, runpy, sys\n"
                           "sys.argv[1:] = ['/dev/null']\n"
                           f"allocate = runpy.run_path({str(HERE / 'stacks_program.py')!r})['allocate']\n"
                           "def several():\n"
                           "    allocate(); allocate(); allocate()\n"
                           "several()\n", encoding="utf-8")
        self.assertEqual(self.record(sys.executable, program).returncode, 0)
        told = self.told()
        self.assertEqual(len([frame for frame in told["frames"] if frame["function"] == "several"]), 1)

    def test_where_a_process_may_not_read_its_memory_so_it_is_said(self):
        forbid = ("import ctypes, os, struct, sys\n"
                  "libc = ctypes.CDLL(None)\n"
                  "NR = {'x86_64': 310, 'aarch64': 270}[os.uname().machine]\n"
                  "code = [(0x20, 0, 0, 0), (0x15, 0, 1, NR), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)]\n"
                  "code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *each) for each in code))\n"
                  "program = ctypes.create_string_buffer(struct.pack('HxxxxxxQ', 4, ctypes.addressof(code)))\n"
                  "assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0\n"
                  f"import runpy; sys.argv[1:] = [sys.argv[1]]\n"
                  f"runpy.run_path({str(HERE / 'stacks_program.py')!r}, run_name='__main__')\n")
        done = self.record(sys.executable, "-c", forbid, self.folder / "out.json")
        self.assertEqual((done.returncode, done.stderr),
                         (0, "cubfc: CUBFC_TRACE_STACKS: stacks are without Python's frames: this process may not call "
                             "process_vm_readv\n"))
        self.assertEqual(self.stacks("python"), [[]] * len(self.stacks()))

    def test_without_stacks_python_is_not_looked_at(self):
        done = self.record(PROGRAM, LYING_PYTHON, depth=0, LYING_PYTHON="3.15.0")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.told()["stacks"], [])
        self.assertNotIn("Which line", self.report("--text").stdout)


PROGRAM_BYTES = pathlib.Path(PROGRAM).read_bytes()

if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[6:]])
