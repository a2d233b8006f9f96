#!/usr/bin/env python3
"""`cubfc check --enforced`: who limits a process's GPU memory, told right where somebody does and where nobody does.

usage: enforced_test.py CUBFC LIBRARY DRIVER_FOLDER NVML_FOLDER
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import own_cgroups  # noqa: E402
from clean_environment import clean_environment  # noqa: E402
from own_cgroups import CGROUPS  # noqa: E402

CUBFC, LIBRARY, DRIVER, NVML = map(os.path.abspath, sys.argv[1:5])
PATIENCE = 120


class Enforced(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cubfc-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = clean_environment(XDG_RUNTIME_DIR=str(self.folder), LD_LIBRARY_PATH=str(self.folder))

    def ask(self, *whom, **settings):
        """(exit status, who with which limit, notes); the lines must say the same."""
        words = [CUBFC, "check", "--enforced", *whom]
        environment = self.environment | settings
        lines = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
        done = subprocess.run([*words, "--json"], env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, lines.returncode, done.stderr)
        if done.returncode == 2:
            self.assertEqual(done.stdout, "")
            return 2, [], done.stderr
        told = json.loads(done.stdout)
        said = [line.split(maxsplit=1) for line in lines.stdout.splitlines()]
        status, last = (0, "yes") if told["enforced"] else (3, "cannot be known") if told["unknown"] else (1, "by nobody")
        self.assertEqual(said[-1], ["enforced", last])
        self.assertEqual(said[1:-1], [[each["by"], each["limit"]] for each in told["enforced"]]
                         + [["note", note] for note in told["notes"]] + [["unknown", each] for each in told["unknown"]])
        said = [line for line in done.stderr.splitlines() if not line.startswith("ERROR: ld.so: ")]
        self.assertEqual((done.returncode, said), (status, []))
        return status, [(each["by"], each["limit"]) for each in told["enforced"]], "\n".join(told["notes"] + told["unknown"])

    def start(self, *words, **settings):
        """A process that has begun, and its number."""
        process = subprocess.Popen(["sh", "-c", 'echo; exec "$@"', "sh", *(words or ("cat",))], env=self.environment | settings,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdout.readline()
        while pathlib.Path(f"/proc/{process.pid}/comm").read_text().strip() == "sh":
            pass
        # It reads when it has loaded what it loads.
        if not words:
            process.stdin.write(b"\n")
            process.stdin.flush()
            process.stdout.read(1)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        return str(process.pid)


class ByCubfc(Enforced):
    def test_a_process_with_it(self):
        process = self.start(LD_PRELOAD=LIBRARY, CUBFC_MEM_LIMIT="1GiB", CUBFC_GROUP="g", CUBFC_GROUP_LIMIT="25%")
        status, who, notes = self.ask(process)
        self.assertEqual((status, notes), (0, ""))
        self.assertEqual(who, [("cubfc", "CUBFC_MEM_LIMIT 1GiB (CUBFC_MEM_LIMIT)"), ("cubfc", "CUBFC_GROUP g (CUBFC_GROUP)"),
                               ("cubfc", "CUBFC_GROUP_LIMIT 25% (CUBFC_GROUP_LIMIT)")])

    def test_what_others_call_it(self):
        process = self.start(LD_PRELOAD=LIBRARY, NVIDIA_GPU_MEMORY_LIMIT="8192", NVIDIA_GPU_MEMORY_REQUEST="1024")
        self.assertEqual(self.ask(process)[:2], (0, [("cubfc", "CUBFC_MEM_LIMIT 8GiB (NVIDIA_GPU_MEMORY_LIMIT=8192)")]))

    def test_one_that_cannot_be_used_gives_nothing(self):
        process = self.start(LD_PRELOAD=LIBRARY, CUBFC_MEM_LIMIT="much")
        status, who, _ = self.ask(process)
        self.assertEqual((status, who[0][0]), (0, "cubfc"))
        self.assertIn("no device memory", who[0][1])

    def test_what_is_no_limit(self):
        for settings, note in (({}, ""), ({"XLA_CLIENT_MEM_FRACTION": "0.5+"}, ""),
                               ({"CUDA_DEVICE_MEMORY_LIMIT": "0"}, ""),
                               ({"CUBFC_MEM_LIMIT": "1GiB", "CUBFC_DISABLE": "1"}, "it does nothing: CUBFC_DISABLE is set")):
            with self.subTest(settings):
                status, who, notes = self.ask(self.start(LD_PRELOAD=LIBRARY, **settings))
                self.assertEqual((status, who), (1, []))
                self.assertIn(note, notes)

    def test_a_process_without_it(self):
        """The variables are there, and the preload was dropped."""
        status, who, notes = self.ask(self.start(CUBFC_MEM_LIMIT="1GiB"))
        self.assertEqual((status, who), (1, []))
        self.assertIn("libcubfc.so is not loaded in the process, so this holds nobody: CUBFC_MEM_LIMIT 1GiB", notes)
        static = shutil.which("ldconfig", path="/sbin:/usr/sbin")
        away = self.folder / "libcubfc.so"
        status, who, notes = self.ask(self.start("sleep", "60", LD_PRELOAD=str(away), CUBFC_MEM_LIMIT="1GiB"))
        self.assertEqual((status, who), (1, []))
        self.assertIn(f"although {away} was named", notes)
        if static:
            status, who, notes = self.ask(static, LD_PRELOAD=LIBRARY, CUBFC_MEM_LIMIT="1GiB")
            self.assertEqual((status, who), (1, []))
            self.assertIn("linked statically", notes)

    def test_xlas_own_fraction_is_xlas(self):
        plugin = self.folder / "xla_cuda_plugin.so"
        subprocess.run(["cc", "-shared", "-o", plugin, "-x", "c", "-"], input=b"int nothing;", check=True)
        settings = {"LD_PRELOAD": f"{LIBRARY}:{plugin}", "XLA_CLIENT_MEM_FRACTION": "0.5"}
        self.assertEqual(self.ask(self.start(**settings))[:2], (1, []))
        status, who, _ = self.ask(self.start(**settings, CUBFC_MEM_LIMIT="1GiB"))
        self.assertEqual((status, who), (0, [("cubfc", "CUBFC_MEM_LIMIT 1GiB (CUBFC_MEM_LIMIT)")]))

    def test_a_program_that_is_to_be_started(self):
        settings = {"CUBFC_MEM_LIMIT": "1GiB"}
        for whom in ((), ("ls",)):
            self.assertEqual(self.ask(*whom, LD_PRELOAD=LIBRARY, **settings)[:2],
                             (0, [("cubfc", "CUBFC_MEM_LIMIT 1GiB (CUBFC_MEM_LIMIT)")]))
            status, who, notes = self.ask(*whom, **settings)
            self.assertEqual((status, who), (1, []))
            self.assertIn("nothing preloads libcubfc.so here", notes)

    def test_nobody_of_that_name(self):
        for whom, why in (("no-such-program", "there is no such program"), ("4194305", "there is no such process"), ("0", "there is no such process")):
            status, _, said = self.ask(whom)
            self.assertEqual(status, 2)
            self.assertIn(why, said)


    def test_a_preload_that_the_dynamic_linker_refuses(self):
        text = self.folder / "libcubfc.so.txt"
        text.write_text("no library")
        for preload in (text, "libcubfc.so"):
            status, who, notes = self.ask(LD_PRELOAD=str(preload), CUBFC_MEM_LIMIT="1GiB")
            self.assertEqual((status, who), (1, []))
            self.assertIn("is named to be preloaded, and cannot be", notes)
        self.assertEqual(self.ask(LD_PRELOAD=f"/none/libcubfc.so:{LIBRARY}", CUBFC_MEM_LIMIT="1GiB")[0], 0)
        (self.folder / "libcubfc.so").symlink_to(LIBRARY)
        self.assertEqual(self.ask(LD_PRELOAD="libcubfc.so", CUBFC_MEM_LIMIT="1GiB")[0], 0)  # by LD_LIBRARY_PATH

    def test_one_that_has_the_library_as_data_only(self):
        program = f"import mmap, sys; f = open('{LIBRARY}'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); print(flush=True); input()"
        process = subprocess.Popen([sys.executable, "-c", program], env=self.environment | {"CUBFC_MEM_LIMIT": "1GiB"},
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdout.readline()
        self.assertEqual(self.ask(str(process.pid))[:2], (1, []))
        process.communicate()

    def test_one_that_has_overwritten_its_environment(self):
        """As those do that show a title of their own. What the library tells counts, once it does."""
        program = """
import ctypes, os, sys
stat = open("/proc/self/stat").read().rsplit(")", 1)[1].split()
start, end = int(stat[47]), int(stat[48])
ctypes.memset(start, 0, end - start)
ctypes.memmove(start, b"a title", 7)
print(flush=True)
input()
cuda, context, block = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0 and cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(64 << 20)) == 0
print(flush=True)
input()
"""
        settings = {"LD_PRELOAD": LIBRARY, "CUBFC_MEM_LIMIT": "1GiB", "CUBFC_PREALLOCATE": "false", "LD_LIBRARY_PATH": DRIVER}
        process = subprocess.Popen([sys.executable, "-c", program], env=self.environment | settings, text=True, bufsize=1,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdout.readline()
        status, who, notes = self.ask(str(process.pid))
        self.assertEqual((status, who), (3, []))
        self.assertIn("the process has overwritten its environment", notes)
        process.stdin.write("\n")
        process.stdout.readline()
        self.assertEqual(self.ask(str(process.pid))[:2],
                         (0, [("cubfc", "1.00 GiB of GPU 0 (CUBFC_MEM_LIMIT), 64.00 MiB taken")]))
        process.communicate()

    def test_a_zombie(self):
        process = subprocess.Popen(["true"])
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        self.assertEqual(self.ask(str(process.pid))[0], 2)
        process.wait()


class ByMps(Enforced):
    def test_where_a_server_is(self):
        settings = {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1G", "CUDA_MPS_PIPE_DIRECTORY": str(self.folder)}
        status, who, notes = self.ask(self.start(**settings))
        self.assertEqual((status, who), (1, []))
        self.assertIn(f"there is no {self.folder}/control", notes)
        os.mkfifo(self.folder / "control")
        self.assertEqual(self.ask(self.start(**settings))[:2],
                         (0, [("MPS", f"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1G ({self.folder}/control)")]))
        for none in ("much", "0=0"):
            self.assertEqual(self.ask(self.start(**settings | {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": none}))[:2], (1, []))


class ByTheDriver(Enforced):
    def test_one_that_limits(self):
        machine = {"LD_LIBRARY_PATH": f"{DRIVER}:{NVML}", "STANDIN_MEMORY": "1GiB", "STANDIN_SHARED": str(self.folder / "device")}
        self.assertEqual(self.ask(**machine)[:2], (1, []))
        status, who, _ = self.ask(**machine, STANDIN_LIMIT="256MiB")
        self.assertEqual((status, [by for by, _ in who]), (0, ["driver"]))
        self.assertRegex(who[0][1], r"^256.0 MiB of GPU-[0-9a-f-]{36} \(NVML, ")
        status, who, notes = self.ask(**machine, NVML_LIMITS="refused")
        self.assertEqual((status, who), (3, []))
        self.assertIn("driver: it cannot be asked: NVML answers 4", notes)


@unittest.skipUnless(own_cgroups.are_there(), "no namespace in which /sys/fs/cgroup is ours")
class ByTheKernel(Enforced):
    def test_the_least_of_the_cgroup_and_those_above(self):
        own = own_cgroups.own()
        (own / "dmem.max").write_text("drm/0000:03:00.0/vram0 max\nnvidia/0000:01:00.0/fb 2147483648\n")
        self.assertEqual(self.ask()[:2], (0, [("kernel", f"2.00 GiB of nvidia/0000:01:00.0/fb ({own}/dmem.max)")]))
        if own != CGROUPS:
            (CGROUPS / "dmem.max").write_text("nvidia/0000:01:00.0/fb 1073741824\n")
            self.assertEqual(self.ask()[:2], (0, [("kernel", f"1.00 GiB of nvidia/0000:01:00.0/fb ({CGROUPS}/dmem.max)")]))
        (own / "dmem.max").write_text("\n \nx\n" + "y " * 1000)
        (CGROUPS / "dmem.max").write_text("")
        self.assertEqual(self.ask()[:2], (1, []))


@unittest.skipUnless(own_cgroups.are_there(), "no namespace in which this user may change its root folder")
class InAnotherRootFolder(Enforced):
    def test_what_is_there_may_be_hostile(self):
        """It hangs nobody, and no link leads out of it."""
        root = self.folder / "root"
        (root / "etc").mkdir(parents=True)
        outside = self.folder / "policy"
        outside.write_text("CUBFC_MEM_LIMIT=1GiB\n")
        preload, policy = root / "etc/ld.so.preload", root / "etc/cubfc.conf"
        program = f"import os; os.chroot('{root}'); os.chdir('/'); print(flush=True); input()"
        process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env=self.environment | {"LD_PRELOAD": LIBRARY})
        self.addCleanup(process.communicate, b"\n")
        process.stdout.readline()
        os.mkfifo(preload)
        os.mkfifo(policy)
        self.ask(str(process.pid))
        preload.unlink()
        preload.symlink_to("/dev/zero")
        for place, status in ((outside, 1), ("../../../" + str(outside), 1), ("/policy", 1)):
            policy.unlink()
            policy.symlink_to(place)
            self.assertEqual(self.ask(str(process.pid))[:2], (status, []))
        (root / "policy").write_text("CUBFC_MEM_LIMIT=2GiB\n")  # where the link leads inside
        self.assertEqual(self.ask(str(process.pid))[:2],
                         (0, [("cubfc", "CUBFC_MEM_LIMIT 2GiB (CUBFC_MEM_LIMIT in /etc/cubfc.conf)")]))


if __name__ == "__main__":
    own_cgroups.run_tests()
