#!/usr/bin/env python3
"""Programs that the library cannot be preloaded into, and what is seen then: docs/what-changes.md.

usage: cannot_preload_test.py LIBRARY
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

LIBRARY = pathlib.Path(sys.argv[1])
SOURCE = '#include <stdio.h>\nint main(void) { puts("ran"); return 5; }\n'


class CannotPreload(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "program.c").write_text(SOURCE)

    def made(self, compiler, *flags):
        """The program, or None where it cannot be made here."""
        program = self.folder / "program"
        if shutil.which(compiler) is None:
            return None
        made = subprocess.run([compiler, *flags, self.folder / "program.c", "-o", program], capture_output=True, check=False)
        return program if made.returncode == 0 else None

    def run_preloaded(self, *command):
        environment = {"PATH": os.environ["PATH"], "LD_PRELOAD": str(LIBRARY)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    def made_or_skipped(self, compiler, *flags):
        program = self.made(compiler, *flags)
        if program is None:
            self.skipTest(f"{compiler} {' '.join(flags)} does not work here")
        return program

    def test_static(self):
        ended = self.run_preloaded(self.made_or_skipped("gcc", "-static"))
        self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (5, "ran\n", ""))

    def test_asan(self):
        ended = self.run_preloaded(self.made_or_skipped("gcc", "-fsanitize=address"))
        self.assertNotEqual(ended.returncode, 5)
        self.assertIn("ASan runtime does not come first", ended.stderr)

    def test_musl(self):
        ended = self.run_preloaded(self.made_or_skipped("musl-gcc"))
        self.assertEqual(ended.returncode, 127)
        self.assertIn("symbol not found", ended.stderr)

    def test_setuid(self):
        program = self.made_or_skipped("gcc")
        if os.geteuid() != 0 or shutil.which("setpriv") is None:
            self.skipTest("only root can make a program another's")
        self.folder.chmod(0o755)
        shutil.copy("/bin/cat", self.folder / "cat")
        for path in (program, self.folder / "cat"):
            path.chmod(0o4755)
        other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        ended = self.run_preloaded(*other, program)
        self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (5, "ran\n", ""))
        maps = self.run_preloaded(*other, self.folder / "cat", "/proc/self/maps")
        if maps.returncode == 0:
            self.assertNotIn("libcubfc", maps.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
