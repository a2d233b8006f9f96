#!/usr/bin/env python3
"""`cubfc fit`, with programs that need no PyTorch: what it says of GPUs, and how it ends. With the real PyTorch:
scripts/frameworks --fit.

usage: fit_test.py CUBFC
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

CUBFC = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) == 2 else sys.exit(__doc__)
SOFTWARE_GPU = CUBFC.parent.parent / "tests/standin/lib"
PYTHON = SOFTWARE_GPU / "python"
PATIENCE = 300
GIB = 1 << 30


def wait_until_gone(pid):
    """A process that has been killed is gone when it has been given a processor once more. One that has not stays for ever."""
    try:
        while ") Z " not in pathlib.Path(f"/proc/{pid}/stat").read_text():
            time.sleep(0.02)
    except (FileNotFoundError, ProcessLookupError):
        pass


class Fit(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cubfc-fit-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def fit(self, *words, **variables):
        environment = {"PATH": f"{os.environ['PATH']}", "TMPDIR": str(self.folder), "XDG_RUNTIME_DIR": str(self.folder)} | variables
        return subprocess.run([CUBFC, "fit", *map(str, words)], env=environment, cwd=self.folder, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)

    def script(self, text):
        path = self.folder / "program.py"
        path.write_text(textwrap.dedent(text))
        return [sys.executable, path]

    def uses(self, gib, then=""):
        """A program that takes so much of the GPU, by the driver, as one block of a GiB after the other."""
        return self.script(textwrap.dedent(f"""
            import ctypes, os, sys
            cuda = ctypes.CDLL("libcuda.so.1")
            context, block = ctypes.c_void_p(), ctypes.c_void_p()
            assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
            assert cuda.cuCtxSetCurrent(context) == 0
            for _ in range({gib}):
                if cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(1 << 30)) != 0:
                    sys.exit("out of memory")
        """) + textwrap.dedent(then))

    def test_what_fits_and_what_does_not(self):
        done = self.fit("--gpu", "4090", "--gpu", "8GiB", "--json", "--", *self.uses(10))
        self.assertEqual(done.returncode, 3, done.stderr)
        told = json.loads(done.stdout)
        self.assertEqual([run["device_bytes"] for run in told["runs"]], [10 * GIB, 10 * GIB])
        self.assertEqual([(gpu["name"], gpu["pytorch_cache"]["fits"], gpu["cubfc_vmm"]["fits"]) for gpu in told["gpus"]],
                         [("RTX-4090", True, True), ("8GiB", False, False)])
        left = told["gpus"][0]
        self.assertEqual(left["pytorch_cache"]["left_bytes"], left["total_bytes"] - left["context_bytes"] - 10 * GIB)
        self.assertEqual(list(self.folder.glob("cubfc-fit-*")), [])

    def test_it_is_told_in_words(self):
        done = self.fit("--gpu", "H100", "--", *self.uses(10))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("program.py, as on H100:\n  needs     10.59 GiB of the GPU\n", done.stdout)
        self.assertRegex(done.stdout, r"\n  H100 +79\.19  fits \+68\.60 ")
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 120)

    def test_without_a_gpu_all_usual_ones_are_shown(self):
        done = self.fit("--", *self.uses(20))
        self.assertEqual(done.returncode, 0, done.stderr)
        for gpu, word in (("T4", "no"), ("A10", "fits"), ("RTX-4090", "fits"), ("B200", "fits"), ("GB10", "fits")):
            self.assertRegex(done.stdout, rf"\n  {gpu} +[0-9.]+  {word} ")

    def test_gpus_are_found_by_their_names(self):
        for name, shown in (("NVIDIA A100-SXM4-80GB", "A100-80GB"), ("rtx 4090", "RTX-4090"), ("h100", "H100"), ("t4", "T4"),
                            ("A100-80GB:2g.20gb", "A100-80GB:2g.20gb"), ("24GiB", "24GiB"), ("24g", "24g")):
            done = self.fit("--gpu", name, "--json", "--", *self.uses(1))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["gpus"][0]["name"], shown)
        for name, words in (("A100", "is one of these: A100-40GB, A100-80GB"), ("Voodoo2", "is no GPU that is known"),
                            ("4096", "is no GPU"), ("A100-80GB:9g.1gb", "the slices of A100-80GB are 1g.10gb"),
                            ("T4:1g.5gb", "T4 has no slices"), ("-5GiB", "is no GPU")):
            done = self.fit(f"--gpu={name}", "--", *self.uses(1))
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(words, done.stderr)
        listed = self.fit("--list-gpus")
        self.assertEqual(listed.returncode, 0)
        self.assertRegex(listed.stdout, r"\nA100-80GB +79\.\d+ +8\.0 +108 ")

    def test_the_largest_value_that_fits(self):
        program = self.uses("int(sys.argv[1])")
        for values, largest, after in (("1..64", 15, 16), ("3..9/3", 9, None), ("40,2,16", 2, 16), ("16..20", None, 16), ("15..15", 15, None)):
            done = self.fit("--gpu", "16GiB", "--search", f"gib={values}", "--json", "--", *program, "{gib}")
            self.assertEqual(done.returncode, 3 if largest is None else 0, done.stderr)
            gpu = json.loads(done.stdout)["gpus"][0]
            found = [tried and tried["value"] for tried in (gpu["largest"], gpu["next"])]
            self.assertEqual(found, [largest, after], values)
            self.assertLessEqual(gpu["tried"], 5)
        told = self.fit("--gpu", "16GiB", "--search", "gib=1..64", "--", *program, "{gib}").stdout
        self.assertRegex(told, r"\n  16GiB +16\.00  15 +fits \+0\.60 +16 +no +-0\.40\n")
        for options, words, said in (
                (["--search", "gib=1..64"], "{gib}", "none is named"), (["--gpu", "T4", "--search", "gib=1..64"], "5", "no word of the program"),
                (["--gpu", "T4", "--search", "gib=9..1"], "{gib}", "is not of the form"), (["--gpu", "T4", "--search", "=1"], "{gib}", "is not of the form"),
                (["--gpu", "T4", "--search", "gib=1..9/0"], "{gib}", "is not of the form"), (["--gpu", "T4", "--search", "gib=,"], "{gib}", "is not of the form"),
                (["--gpu", "T4", "--search", "gib=0..99999999999"], "{gib}", "is not of the form")):
            done = self.fit(*options, "--", *program, words)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(said, done.stderr)
        done = self.fit("--gpu", "T4", "--search", "gib=0..9", "--", *program, "x{gib}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("invalid literal for int() with base 10: 'x0'", done.stderr)
        self.assertEqual(list(self.folder.glob("cubfc-fit-*")), [])

    def test_two_processes_on_one_gpu(self):
        """One after the other: they fit where each fits, and may need the sum where they run at once."""
        program = self.script("""
            import ctypes, subprocess, sys
            if len(sys.argv) == 1:
                subprocess.run([sys.executable, __file__, "once more"], check=True)
            cuda, context, block = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
            assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
            if cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(6 << 30)) != 0:
                sys.exit("out of memory")
        """)
        done = self.fit("--gpu", "24GiB", "--gpu", "10GiB", "--json", "--", *program)
        self.assertEqual(done.returncode, 0, done.stderr)  # one after the other, they fit on both
        run = json.loads(done.stdout)["runs"][0]
        self.assertEqual((run["device_bytes"], run["beside_bytes"]), (6 * GIB, 6 * GIB + run["context_bytes"]))
        self.assertIn("of it by another process on the same GPU", self.fit("--gpu", "24GiB", "--", *program).stdout)

    def test_the_first_request_is_too_large(self):
        done = self.fit("--gpu", "T4", "--json", "--", *self.script("""
            import ctypes, sys
            cuda, context, block = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
            assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
            if cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(20 << 30)) != 0:
                sys.exit("out of memory")
        """))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(json.loads(done.stdout)["runs"][0]["device_bytes"], 20 * GIB)

    def test_a_page_of_the_run(self):
        page = self.folder / "page.html"
        done = self.fit("--gpu", "T4", "--page", page, "--", *self.uses(2))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("<title>", page.read_text()[:2000])
        page.unlink()
        done = self.fit("--gpu", "T4", "--page", self.folder / "none/page.html", "--", *self.uses(2))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn('none/page.html" cannot be written: No such file or directory', done.stderr)

    def test_what_cannot_be_learnt(self):
        done = self.fit("--gpu", "T4", "--trace", self.folder / "kept.cubfc", "--", *self.uses(2))
        self.assertEqual(done.returncode, 0, done.stderr)
        for file, said in (("none.pickle", "none.pickle: No such file"), ("program.py", "program.py"),
                           ("kept.cubfc", "there is nothing to learn")):
            done = self.fit("--gpu", "T4", "--learn", self.folder / file, "--", *self.uses(2))
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(said, done.stderr)
        for share in ("1.5", "-1", "much"):
            done = self.fit("--gpu", "T4", f"--cudnn={share}", "--", *self.uses(2))
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn("is no share from 0 to 1", done.stderr)

    def test_libraries_of_nvidia_are_replaced_however_they_are_opened(self):
        """By their name and by a whole path, which here leads to another library; what is not theirs is what it is."""
        for name in ("libcudnn.so.9", "libcublas.so.12", "libcuda.so.1", "libcurious.so"):
            shutil.copy(SOFTWARE_GPU / "libcupti.so", self.folder / name)
        done = self.fit("--gpu", "H100", "--show-output", "--", *self.uses(1, """
            for name, function in (("libcudnn.so.9", "cudnnGetVersion"), ("libcublas.so.12", "cublasCreate_v2"), ("libcuda.so.1", "cuInit"),
                                   ("libcurious.so", "cuptiEnableCallback")):
                assert hasattr(ctypes.CDLL(os.path.join(os.getcwd(), name)), function), name
            print("all there")
        """))
        self.assertIn("all there\n", done.stdout, done.stderr)

    def test_the_program_sees_the_gpu_that_was_named(self):
        text = self.uses(1, """
            name, major, minor, count = ctypes.create_string_buffer(64), ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
            assert cuda.cuDeviceGetName(name, 64, 0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
            assert cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, 0) == 0 and cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, 0) == 0
            print(name.value.decode(), major.value, minor.value, count.value)
        """)
        done = self.fit("--gpu", "L40S", "--gpus", "2", "--show-output", "--", *text)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("NVIDIA L40S 8 9 2\n", done.stdout)

    def test_what_fails_is_told_with_what_it_wrote(self):
        done = self.fit("--gpu", "T4", "--", *self.uses(1, 'sys.exit("I have no data")'))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("ended with status 1, as on T4", done.stderr)
        self.assertIn("I have no data", done.stderr)
        done = self.fit("--gpu", "T4", "--", *self.uses(1, "os.kill(os.getpid(), 9)"))
        self.assertIn("ended by SIGKILL", done.stderr)
        done = self.fit("--gpu", "T4", "--", "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("asked for no memory of a GPU", done.stderr)
        done = self.fit("--gpu", "T4", "--", self.folder / "nothing")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing", done.stderr)

    def test_a_wrong_command_line_starts_nothing(self):
        mark = self.folder / "started"
        for words in (("--gpu", "T4"), ("--steps", "many", "--", "touch", mark), ("--seconds", "-1", "--", "touch", mark),
                      ("--gpus", "0", "--", "touch", mark), ("--nonsense", "--", "touch", mark)):
            self.assertEqual(self.fit(*words).returncode, 2, words)
            self.assertFalse(mark.exists())

    def test_who_needs_nvidias_driver_is_refused_by_name(self):
        (self.folder / "cupy.py").write_text("raise RuntimeError('no driver')")
        done = self.fit("--gpu", "T4", "--", *self.script("import cupy"), PYTHONPATH=str(self.folder))
        self.assertEqual(done.returncode, 1)
        self.assertIn("the program uses CuPy, which has NVIDIA's CUDA runtime inside", done.stderr)
        self.assertIn("cubfc run --observe --trace FILE", done.stderr)
        done = self.fit("--gpu", "T4", "--", *self.uses(1, """
            table = ctypes.c_void_p()
            sys.exit(cuda.cuGetExportTable(ctypes.byref(table), b"0123456789abcdef"))
        """))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"the program uses \S*ffi\S*, which has NVIDIA's CUDA runtime inside")

    def test_the_recording_can_be_kept(self):
        done = self.fit("--gpu", "T4", "--trace", self.folder / "kept.cubfc", "--", *self.uses(3))
        self.assertEqual(done.returncode, 0, done.stderr)
        report = subprocess.run([CUBFC, "report", "--text", self.folder / "kept.cubfc"], capture_output=True, text=True, check=True)
        self.assertIn("3.00 GiB", report.stdout)
        done = self.fit("--gpu", "T4", "--trace", "/nowhere/kept.cubfc", "--", *self.uses(1))
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/kept.cubfc", done.stderr)

    def test_the_users_own_settings_do_not_count(self):
        done = self.fit("--gpu", "T4", "--json", "--", *self.uses(2), CUBFC_DISABLE="1", CUBFC_MEM_LIMIT="1MiB", STANDIN_MEMORY="1MiB",
                        CUDA_VISIBLE_DEVICES="")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["runs"][0]["device_bytes"], 2 * GIB)

    def test_what_the_program_started_ends_with_it(self):
        done = self.fit("--gpu", "T4", "--", *self.uses(1, """
            import subprocess
            child = subprocess.Popen(["sleep", "1000"])
            open("child", "w").write(str(child.pid))
        """))
        self.assertEqual(done.returncode, 0, done.stderr)
        wait_until_gone((self.folder / "child").read_text())


    def test_an_interrupt_ends_all_and_leaves_nothing(self):
        program = self.uses(1, """
            import subprocess, time
            child = subprocess.Popen(["sleep", "1000"])
            open("child.new", "w").write(f"{os.getpid()} {child.pid}")
            os.rename("child.new", "child")
            time.sleep(1000)
        """)
        environment = {"PATH": os.environ["PATH"], "TMPDIR": str(self.folder), "XDG_RUNTIME_DIR": str(self.folder)}
        with subprocess.Popen([CUBFC, "fit", "--gpu", "T4", "--", *program], env=environment, cwd=self.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as fit:
            while not (self.folder / "child").exists():
                self.assertIsNone(fit.poll())
                time.sleep(0.02)
            fit.send_signal(signal.SIGINT)
            out, said = fit.communicate(timeout=PATIENCE)
        self.assertEqual((fit.returncode, out), (130, ""), said)
        self.assertIn("fit: interrupted", said)
        self.assertEqual(list(self.folder.glob("cubfc-fit-*")), [])
        for pid in (self.folder / "child").read_text().split():
            wait_until_gone(pid)


class InTheProgram(unittest.TestCase):
    """What is imported into a program, where PyTorch is not."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cubfc-fit-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def python(self, text, **variables):
        return subprocess.run([sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, check=False, cwd=self.folder,
                              env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{PYTHON}:{self.folder}",
                                   "CUBFC_FIT_NOTES": str(self.folder / "notes-%p")} | variables)

    def test_a_program_that_imports_no_framework_is_as_it_was(self):
        done = self.python("import sys; print('torch' in sys.modules, 'cubfc_fit.mode' in sys.modules)")
        self.assertEqual((done.stdout, done.stderr), ("False False\n", ""))
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_its_own_sitecustomize_is_imported_too(self):
        (self.folder / "sitecustomize.py").write_text("print('mine')")
        self.assertEqual(self.python("pass").stdout, "mine\n")
        (self.folder / "sitecustomize.py").write_text("raise ImportError('mine')")
        self.assertIn("mine", self.python("pass").stderr)

    def test_a_torch_that_is_none_fails_as_it_would(self):
        self.assertIn("No module named 'torch'", self.python("import torch").stderr)
        (self.folder / "torch.py").write_text("raise RuntimeError('broken')")
        self.assertIn("broken", self.python("import torch").stderr)

    def test_it_is_only_there_for_fit(self):
        (self.folder / "torch.py").write_text("print('torch')")
        done = self.python("import torch", CUBFC_FIT_NOTES="")
        self.assertEqual((done.stdout, done.stderr), ("torch\n", ""))


if __name__ == "__main__":
    unittest.main()
