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

CUBFC, LIBRARY, DRIVER, NVML = map(os.path.abspath, sys.argv[1:5])
PATIENCE = 120
INSIDE = "CUBFC_TEST_INSIDE"
CGROUPS = pathlib.Path("/sys/fs/cgroup")


class Enforced(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cubfc-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("CUBFC_", "STANDIN_", "NVML_", "CUDA_", "XLA_", "LD_"))}
        self.environment = kept | {"XDG_RUNTIME_DIR": str(self.folder), "LD_LIBRARY_PATH": str(self.folder)}

    def ask(self, *whom, **settings):
        """(exit status, who with which limit, notes); the lines must say the same."""
        words = [CUBFC, "check", "--enforced", f"--library={LIBRARY}", *whom]
        environment = self.environment | settings
        lines = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
        done = subprocess.run([*words, "--json"], env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, lines.returncode, done.stderr)
        if done.returncode == 2:
            self.assertEqual(done.stdout, "")
            return 2, [], done.stderr
        told = json.loads(done.stdout)
        said = [line.split(maxsplit=1) for line in lines.stdout.splitlines()]
        self.assertEqual(said[-1], ["enforced", "yes" if told["enforced"] else "by nobody"])
        self.assertEqual(said[1:-1], [[each["by"], each["limit"]] for each in told["enforced"]]
                         + [["note", note] for note in told["notes"]])
        self.assertEqual((done.returncode, done.stderr), (0 if told["enforced"] else 1, ""))
        return done.returncode, [(each["by"], each["limit"]) for each in told["enforced"]], "\n".join(told["notes"])

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


class ByMps(Enforced):
    def test_where_a_server_is(self):
        settings = {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1G", "CUDA_MPS_PIPE_DIRECTORY": str(self.folder)}
        status, who, notes = self.ask(self.start(**settings))
        self.assertEqual((status, who), (1, []))
        self.assertIn(f"there is no {self.folder}/control", notes)
        os.mkfifo(self.folder / "control")
        self.assertEqual(self.ask(self.start(**settings))[:2],
                         (0, [("MPS", f"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1G ({self.folder}/control)")]))


class ByTheDriver(Enforced):
    def test_one_that_limits(self):
        machine = {"LD_LIBRARY_PATH": f"{DRIVER}:{NVML}", "STANDIN_MEMORY": "1GiB", "STANDIN_SHARED": str(self.folder / "device")}
        self.assertEqual(self.ask(**machine)[:2], (1, []))
        status, who, _ = self.ask(**machine, STANDIN_LIMIT="256MiB")
        self.assertEqual((status, [by for by, _ in who]), (0, ["driver"]))
        self.assertRegex(who[0][1], r"^256.0 MiB of GPU-[0-9a-f-]{36} \(NVML, ")
        status, who, notes = self.ask(**machine, NVML_LIMITS="refused")
        self.assertEqual((status, who), (1, []))
        self.assertIn("driver: it cannot be asked: NVML answers 4", notes)


@unittest.skipUnless(os.environ.get(INSIDE), "no namespace in which /sys/fs/cgroup is ours")
class ByTheKernel(Enforced):
    def test_the_least_of_the_cgroup_and_those_above(self):
        path = next(line[3:] for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::"))
        own = CGROUPS / path.lstrip("/")
        own.mkdir(parents=True, exist_ok=True)
        (own / "dmem.max").write_text("drm/0000:03:00.0/vram0 max\nnvidia/0000:01:00.0/fb 2147483648\n")
        self.assertEqual(self.ask()[:2], (0, [("kernel", f"2.00 GiB of nvidia/0000:01:00.0/fb ({own}/dmem.max)")]))
        if own != CGROUPS:
            (CGROUPS / "dmem.max").write_text("nvidia/0000:01:00.0/fb 1073741824\n")
            self.assertEqual(self.ask()[:2], (0, [("kernel", f"1.00 GiB of nvidia/0000:01:00.0/fb ({CGROUPS}/dmem.max)")]))
        (own / "dmem.max").write_text("\n \nx\n" + "y " * 1000)
        (CGROUPS / "dmem.max").write_text("")
        self.assertEqual(self.ask()[:2], (1, []))


def main():
    if not os.environ.get(INSIDE):
        script = f'mount -t tmpfs none {CGROUPS} && exec "$@"'
        words = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--map-root-user", "--user"]), "sh", "-c", script, "sh"]
        if subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0:
            os.environ[INSIDE] = "1"
            os.execvp(words[0], [*words, sys.executable, *sys.argv])
    unittest.main(argv=sys.argv[:1])


if __name__ == "__main__":
    main()
