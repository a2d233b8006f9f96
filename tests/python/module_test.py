#!/usr/bin/env python3
"""The Python module `cubfc`, in programs on the software driver, with and without the library; and its notebook.

usage: module_test.py CUBFC LIBRARY DRIVER_FOLDER MODULE_FOLDER NOTEBOOK
"""
import glob
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

if len(sys.argv) < 6:
    sys.exit(__doc__)
CUBFC, LIBRARY, DRIVER, MODULE, NOTEBOOK = map(os.path.abspath, sys.argv[1:6])
MIB = 1 << 20
CUDA = '''
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
def must(result):
    assert result == 0, result
def start():
    must(cuda.cuInit(0))
    context = ctypes.c_void_p()
    must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    must(cuda.cuCtxSetCurrent(context))
def allocate(size):
    address = ctypes.c_uint64()
    must(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)))
    return address
def free(address):
    must(cuda.cuMemFree_v2(address))
'''
TORCH = '''
import types, driver
uint8, cached = "uint8", []
class Tensor:
    def __init__(self, size): self.block = driver.allocate(size)
    def __del__(self): cached.append(self.block)
def empty(size, dtype, device):
    assert (dtype, device) == (uint8, "cuda")
    driver.start()
    return Tensor(size)
def empty_cache():
    while cached: driver.free(cached.pop())
cuda = types.SimpleNamespace(is_available=lambda: True, empty_cache=empty_cache)
'''


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cubfc-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("CUBFC_")}
        self.environment = kept | {
            "PATH": f"{os.path.dirname(CUBFC)}:{kept['PATH']}", "PYTHONPATH": MODULE, "LD_LIBRARY_PATH": DRIVER,
            "STANDIN_MEMORY": "1GiB", "XDG_RUNTIME_DIR": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        self.under = {"LD_PRELOAD": LIBRARY}

    def start(self, *words, stdin="", **more):
        return subprocess.run([sys.executable, *words], env=self.environment | more, input=stdin, capture_output=True,
                              text=True, timeout=120, check=False)

    def output(self, program, *arguments, **more):
        done = self.start("-c", CUDA + program, *arguments, **more)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout


class Module(Programs):
    def test_without_the_library(self):
        self.assertEqual(self.output("import cubfc; print(cubfc.is_active(), cubfc.stats(), cubfc.stats(0), cubfc.trim())"),
                         "False None None 0\n")

    def test_a_limit_before_cuda_is_called(self):
        told = self.output("""
import cubfc
cubfc.limit("1GiB")
cubfc.limit("25%")  # the last one counts
start()
taken = 0
address = ctypes.c_uint64()
while cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(16 << 20)) == 0: taken += 16
print(taken, cubfc.stats(0)["bytes_limit"] >> 20, cubfc.stats(0)["limit_origin"])
try:
    cubfc.limit("512MiB")
except RuntimeError as error:
    print(error)
print(cubfc.stats(0)["bytes_limit"] >> 20)
""", **self.under, CUBFC_LOG_LEVEL="off", CUBFC_MEM_LIMIT="900MiB")
        self.assertEqual(told.splitlines(), ["256 256 CUBFC_MEM_LIMIT", "cubfc.limit: it is too late, CUDA has been called: call it before "
                                             "anything uses the GPU", "256"])

    def test_what_is_no_limit_changes_nothing(self):
        told = self.output("""
import cubfc
for wrong in ("", "0", "much", "120%", "5", "-1GiB", "1GiB,", "\\u20ac"):
    try:
        cubfc.limit(wrong)
        print("accepted", wrong)
    except ValueError:
        pass
start()
allocate(1 << 20)
print(cubfc.stats(0)["bytes_limit"] >> 20)
""", **self.under, CUBFC_LOG_LEVEL="off", CUBFC_MEM_LIMIT="100MiB")
        self.assertEqual(told, "100\n")

    def test_a_limit_without_the_library_or_switched_off(self):
        for variables, words in (({}, "is not under cubfc"), (self.under | {"CUBFC_DISABLE": "1"}, "not supported")):
            done = self.start("-c", "import cubfc; cubfc.limit('1GiB')", **variables)
            self.assertIn("RuntimeError: cubfc.limit: ", done.stderr)
            self.assertIn(words, done.stderr)

    def test_a_limit_that_races_with_the_first_call(self):
        """Each thread's limit is set, or it is too late; and the one that was set last holds."""
        told = self.output("""
import threading, cubfc
function = ctypes.CDLL(None).cubfc_limit
begin, results = threading.Barrier(5), []
def set_limit(n):
    begin.wait()
    for round in range(200): results.append(function(b"%dMiB" % (100 + n)))
def call():
    begin.wait()
    start()
threads = [threading.Thread(target=set_limit, args=(n,)) for n in range(4)] + [threading.Thread(target=call)]
for each in threads: each.start()
for each in threads: each.join()
start()
allocate(1 << 20)
limit = cubfc.stats(0)["bytes_limit"]
print(set(results) <= {0, 16}, limit is None if 0 not in results else 100 <= limit >> 20 <= 103)
""", **self.under)
        self.assertEqual(told, "True True\n")

    def test_a_child_has_the_limit_of_before_the_fork(self):
        told = self.output("""
import cubfc
cubfc.limit("64MiB")
child = os.fork()
start()
allocate(1 << 20)
if child: os.waitpid(child, 0)
print(cubfc.stats(0)["bytes_limit"] >> 20, flush=True)
""".replace("import cubfc", "import os, cubfc", 1), **self.under)
        self.assertEqual(told, "64\n64\n")

    def test_before_cuda(self):
        self.assertEqual(self.output("import cubfc; print(cubfc.is_active(), cubfc.stats(), cubfc.trim())", **self.under),
                         "True None 0\n")

    def test_stats(self):
        told = json.loads(self.output(
            "import cubfc, json\nstart()\none, two = allocate(30 << 20), allocate(10 << 20)\nfree(one)\n"
            "print(json.dumps([cubfc.stats(), cubfc.stats(0), cubfc.stats(1)]))", CUBFC_MEM_LIMIT="512MiB", **self.under))
        self.assertEqual(told[0]["devices"], [told[1]])
        self.assertIsNone(told[2])
        self.assertEqual((told[1]["bytes_in_use"], told[1]["peak_bytes_in_use"]), (10 * MIB, 40 * MIB))
        self.assertEqual(told[1]["bytes_limit"], 512 * MIB)
        self.assertEqual(told[1]["callers"][0]["bytes_in_use"], 10 * MIB)

    def test_what_was_recorded_survives_an_end_that_runs_nothing(self):
        recording = pathlib.Path(self.folder, "run.cubfc")
        program = "import cubfc, os\nstart()\nallocate(100)\nprint(cubfc.flush(), flush=True)\nos._exit(0)\n"
        self.assertEqual(self.output(program, **self.under), "False\n")
        self.assertEqual(self.output(program, CUBFC_TRACE=str(recording), **self.under), "True\n")
        self.assertGreater(recording.stat().st_size, 0)

    def test_trim(self):
        more, everything = self.output(
            "import cubfc\nstart()\nfree(allocate(900 << 20))\nprint(cubfc.trim() > 0, cubfc.trim(preallocated=True) > 0)\n",
            CUBFC_PREALLOCATE_LIMIT="128MiB", **self.under).split()
        self.assertEqual((more, everything), ("True", "True"))

    def test_disabled(self):
        self.assertEqual(self.output("import cubfc\nstart()\nallocate(100)\nprint(cubfc.stats(), cubfc.trim())",
                                     CUBFC_DISABLE="1", **self.under), "None 0\n")

    def test_in_a_forked_child(self):
        self.assertEqual(self.output(
            "import cubfc, os\nstart()\nallocate(100)\nif os.fork() == 0:\n  print(cubfc.stats(), cubfc.trim(), flush=True)\n"
            "  os._exit(0)\nos.wait()\n", **self.under), "None 0\n")

    def test_threads(self):
        self.assertEqual(self.output(
            "import cubfc, threading\nstart()\nallocate(MIB := 1 << 20)\nfailed = []\ndef ask():\n  for _ in range(200):\n"
            "    if cubfc.stats(0)['bytes_in_use'] != MIB: failed.append(1)\n"
            "threads = [threading.Thread(target=ask) for _ in range(4)]\n"
            "[t.start() for t in threads]; [t.join() for t in threads]\nprint(failed)", **self.under), "[]\n")


class Environment(Programs):
    def variables(self, call, **more):
        return json.loads(self.output(f"import cubfc, json\nprint(json.dumps(cubfc.environment({call})))", **more))

    def test_it_is_what_starts_a_program_under_cubfc(self):
        variables = self.variables("mem_limit='256MiB', preallocate=False, trace_stacks=8", CUBFC_LOG_LEVEL="debug")
        self.assertEqual(variables, {"LD_PRELOAD": LIBRARY, "CUBFC_MEM_LIMIT": "256MiB", "CUBFC_PREALLOCATE": "false",
                                     "CUBFC_TRACE_STACKS": "8"})
        self.assertEqual(self.output("import cubfc\nstart()\nallocate(100)\nprint(cubfc.stats(0)['bytes_limit'] >> 20)\n", **variables),
                         "256\n")

    def test_what_was_preloaded_stays_in_front_and_the_library_is_there_once(self):
        other = f"{DRIVER}/libcuda.so.1"
        self.assertEqual(self.variables("", LD_PRELOAD=other)["LD_PRELOAD"], f"{other}:{LIBRARY}")
        self.assertEqual(self.variables("", **self.under)["LD_PRELOAD"], LIBRARY)

    def test_what_cannot_be_used_is_an_error(self):
        for call in ("mem_limit='lots'", "mem_frction=0.5", "mem_limit=20"):
            done = self.start("-c", f"import cubfc\ntry:\n  cubfc.environment({call})\nexcept ValueError as e:\n  print('told', e)")
            self.assertRegex(done.stdout, r"\Atold .*" + call.split("=")[0].replace("_", "-"), done.stderr)

    def test_a_program_of_its_own_names_changes_nothing(self):
        done = self.start("-c", "import cubfc, os; print(sorted(cubfc.environment(mem_fraction=0.5)), 'CUBFC_MEM_FRACTION' in os.environ)")
        self.assertEqual(done.stdout, "['CUBFC_MEM_FRACTION', 'LD_PRELOAD'] False\n", done.stderr)


class Versions(Programs):
    """The module in each Python that is here: those of pyenv, and of CUBFC_TEST_PYTHONS (a list with colons between)."""

    def test_each_python_imports_it_applies_it_and_starts_others(self):
        path = self.folder / "go.py"
        path.write_text("import cubfc\ncubfc.apply(mem_limit='256MiB')\n"
                        "print(cubfc.is_active(), cubfc.environment(free='deferred')['CUBFC_FREE'])\n")
        tried = []
        named = os.environ.get("CUBFC_TEST_PYTHONS", "").split(":")
        for python in [*filter(None, named), *sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python3"))), sys.executable]:
            version = subprocess.run([python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True,
                                     check=False).stdout.split()
            if tuple(map(int, version)) < (3, 9):
                continue
            with self.subTest(python=python):
                done = subprocess.run([python, path, "a", "-c"], env=self.environment, capture_output=True, text=True, timeout=120,
                                      check=False)
                self.assertEqual((done.stdout, done.stderr), ("True deferred\n", ""))
                tried.append(".".join(version))
        print("the module is tried in Python", *sorted(set(tried)))
        self.assertTrue(tried)


class Apply(Programs):
    PROGRAM = CUDA + '''
import os, sys
print("once", flush=True)
import cubfc
cubfc.apply(mem_limit="256MiB", preallocate=False)
start()
allocate(100)
device = cubfc.stats(0)
print(device["bytes_limit"] >> 20, os.environ["CUBFC_PREALLOCATE"], sys.argv[1:], os.getpid())
'''

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return str(path)

    def assert_applied(self, words, arguments, **more):
        process = subprocess.Popen([sys.executable, *words, *arguments], env=self.environment | more,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out, err = process.communicate(timeout=120)
        self.assertEqual(err, "")
        self.assertEqual(out, f"once\nonce\n256 false {arguments} {process.pid}\n")

    def test_a_script_a_package_a_command_line(self):
        arguments = ["a b", "--mem-limit", "9", "", "--", "-q"]
        self.assert_applied([self.write("go.py", self.PROGRAM)], arguments)
        self.write("package/__main__.py", self.PROGRAM)
        self.assert_applied(["-m", "package"], arguments, PYTHONPATH=f"{MODULE}:{self.folder}")
        self.assert_applied([str(self.folder / "package")], arguments)
        self.assert_applied(["-X", "dev", "-u", "-W", "ignore", str(self.folder / "go.py")], arguments)
        self.assert_applied(["-c", self.PROGRAM], arguments)

    def test_an_executable_script(self):
        path = self.write("go", f"#!{sys.executable}\n{self.PROGRAM}")
        os.chmod(path, 0o755)
        done = subprocess.run([path, "x"], env=self.environment, capture_output=True, text=True, check=False)
        self.assertRegex(done.stdout, r"\Aonce\nonce\n256 false \['x'\] \d+\n\Z")

    def test_children_go_on_as_they_are(self):
        path = self.write("go.py", '''
import cubfc, multiprocessing, os
cubfc.apply(mem_limit="256MiB")
def work(number):
    return number, cubfc.is_active(), os.environ["CUBFC_MEM_LIMIT"]
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        print(pool.map(work, [1, 2]))
''')
        done = self.start(path)
        self.assertEqual((done.stdout, done.stderr), ("[(1, True, '256MiB'), (2, True, '256MiB')]\n", ""))

    def test_what_cannot_be_used_is_said_before(self):
        for option in ("mem_limit='lots'", "mem_frction=0.5", "mem_fraction=''", "free='later'"):
            done = self.start("-c", f"import cubfc\ntry:\n  cubfc.apply({option})\nexcept ValueError as e:\n  print('told', e)")
            self.assertRegex(done.stdout, r"\Atold .*" + option.split("=")[0].replace("_", "-"), done.stderr)

    def test_too_late(self):
        told = "\ntry:\n  cubfc.apply()\nexcept RuntimeError as e:\n  print(e)\nelse:\n  print('again')\n"
        early = "import cubfc" + told
        self.assertEqual(self.output("must(cuda.cuInit(0))\n" + early), "again\n")
        self.assertIn("too late", self.output("start()\n" + early))
        self.assertIn("too late", self.output("start()\nmust(cuda.cuCtxSetCurrent(None))\n" + early))

    def test_what_cannot_be_executed_again(self):
        program = "import cubfc\ntry:\n  cubfc.apply()\nexcept RuntimeError as e:\n  print(e)\n"
        for words in ((), ("-",), ("-", "x"), ("-i",)):
            self.assertIn("terminal or a pipe", self.start(*words, stdin=program + "\n").stdout, words)

    def test_without_the_command(self):
        done = self.start("-c", "import cubfc\ncubfc.apply()", PATH="/usr/bin")
        self.assertIn("there is no command cubfc", done.stderr)


class Notebook(Programs):
    def cells(self):
        notebook = json.loads(pathlib.Path(NOTEBOOK).read_text())
        self.assertEqual(notebook["nbformat"], 4)
        return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]

    def run_notebook(self, **more):
        """Its cells, one after the other, as an engine runs them."""
        program = self.folder / "notebook.py"
        program.write_text("".join(f"exec(compile({cell!r}, 'cell', 'exec'))\n" for cell in self.cells()))
        done = self.start(str(program), **more)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_under_cubfc(self):
        shown = self.run_notebook(**self.under)
        self.assertRegex(shown, r"GPU 0: 64\.0 MiB in use, peak 64\.0 MiB")
        self.assertRegex(shown, r"[1-9][0-9.]* MiB given back")

    def test_without_cubfc(self):
        self.assertIn("not under cubfc", self.run_notebook())

    def test_with_pytorch(self):
        """PyTorch finds no GPU in the software driver, so one is made up that calls it as PyTorch does: a tensor's memory
        stays in a cache until that is emptied."""
        (self.folder / "driver.py").write_text(CUDA)
        (self.folder / "torch.py").write_text(TORCH)
        shown = self.run_notebook(**self.under)
        self.assertRegex(shown, r"GPU 0: 64\.0 MiB in use, peak 64\.0 MiB")
        self.assertRegex(shown, r"[1-9][0-9.]* MiB given back\nGPU 0: 0\.0 MiB in use")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[6:])
