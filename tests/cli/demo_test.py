#!/usr/bin/env python3
"""`cubfc demo`: what a new user sees, and that it leaves alone what is theirs.

usage: demo_test.py CUBFC LIBRARY
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

CUBFC, LIBRARY = (pathlib.Path(path).resolve() for path in sys.argv[1:3]) if len(sys.argv) == 3 else sys.exit(__doc__)
PATIENCE = 300  # seconds, for what takes one
SOURCE = pathlib.Path(__file__).resolve().parents[2] / "cli/demo/training.cpp"


def line_of(text):
    """Where the program asks for it, as a report says that."""
    [number] = [number for number, line in enumerate(SOURCE.read_text().splitlines(), 1) if text in line]
    return f"training.cpp:{number}"


class Demo(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cubfc-demo-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def demo(self, *words, command=CUBFC, **variables):
        environment = {"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(self.folder)} | variables
        return subprocess.run([command, "demo", *words], env=environment, cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE,
                              check=False)

    def assert_shows_all(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        told = done.stdout + done.stderr
        for part in ("over the limit (1.50 GiB of 1.50 GiB taken)",  # a limit that refuses
                     "training: out of GPU memory", "training: done", line_of("one_more(activations)") + " (forward)",
                     line_of("one_more(kept)") + " (keep_logits)",
                     "fits       no"):
            self.assertIn(part, told)
        self.assertEqual(re.findall(r"^(\d)\. ", done.stdout, re.MULTILINE), ["1", "2", "3", "4", "5"])

    def test_it_shows_a_limit_a_report_and_a_page(self):
        done = self.demo()
        self.assert_shows_all(done)
        page = self.folder / "cubfc-demo/training.html"
        self.assertIn(f"The page is {page}:", done.stdout)
        self.assertIn("keep_logits", page.read_text())

    def test_what_it_shows_can_be_typed(self):
        done = self.demo("--folder", "it's mine")
        commands = re.findall(r"^\$ ((?:.*\\\n)*.*)$", done.stdout, re.MULTILINE)
        self.assertEqual(commands[0], r"cd 'it'\''s mine'")
        script = "\n".join(commands)
        again = subprocess.run(["sh", "-c", script], cwd=self.folder, env={"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(self.folder)},
                               capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertIn("over the limit (1.50 GiB of 1.50 GiB taken)", again.stderr)
        self.assertEqual(again.returncode, 3)  # of the last: it would not fit

    def test_the_users_own_settings_do_not_count(self):
        self.assert_shows_all(self.demo(CUBFC_DISABLE="1", CUBFC_MEM_LIMIT="1MiB", CUBFC_ALLOCATOR="nonsense", STANDIN_MEMORY="1MiB",
                                        LD_PRELOAD=str(LIBRARY)))

    def test_again_in_the_same_folder_and_in_another(self):
        for words in ((), (), ("--folder", "deep/er"), ("--folder", str(self.folder / "x y"))):
            self.assert_shows_all(self.demo(*words))
        self.assertTrue((self.folder / "deep/er/training.html").exists())

    def test_what_is_the_users_is_left_alone(self):
        own = self.folder / "cubfc-demo"
        own.mkdir()
        (own / "training.html").write_text("mine")
        done = self.demo()
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("choose another with --folder", done.stderr)
        self.assertEqual(sorted(path.name for path in own.iterdir()), ["training.html"])
        shutil.rmtree(own)
        own.write_text("a file")
        self.assertEqual(self.demo().returncode, 2)
        self.assertEqual(own.read_text(), "a file")

    def test_a_folder_that_cannot_be_made_is_named_with_the_remedy(self):
        done = self.demo("--folder", "/proc/nowhere")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r'^cubfc: demo: no folder "/proc/nowhere" can be made: .*; choose another with --folder\n$')

    def test_without_the_software_gpu_it_says_which_package_that_is(self):
        (self.folder / "bin").mkdir()
        (self.folder / "lib").mkdir()
        shutil.copy(CUBFC, self.folder / "bin")
        shutil.copy(LIBRARY, self.folder / "lib")
        done = self.demo(command=self.folder / "bin/cubfc")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cubfc-software-gpu", done.stderr)
        self.assertFalse((self.folder / "cubfc-demo").exists())

    def test_a_pipe_that_is_closed_does_it_no_harm(self):
        with subprocess.Popen([CUBFC, "demo"], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(self.folder)}) as process:
            process.stdout.readline()
            process.stdout.close()
            self.assertIn(process.wait(timeout=PATIENCE), (0, 1, -13))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
