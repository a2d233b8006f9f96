#!/usr/bin/env python3
"""The limit of a container, by NVIDIA's names (NVIDIA_GPU_MEMORY_LIMIT and _REQUEST): the same on a driver that keeps it
itself (from 615 on; the container toolkit sets it), and on an older one, where cubfc does; beside each other limit, which is
less, as much, or more. A program sees the same figures by cuMemGetInfo and is refused from the same byte on.

    container_limit_test.py LIBRARY STANDIN_FOLDER PROGRAMS_FOLDER
"""

import os
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import own_cgroups  # noqa: E402
from own_cgroups import CGROUPS  # noqa: E402
from step_by_step import StepByStep  # noqa: E402

LIBRARY, STANDIN, PROGRAMS = (os.path.realpath(path) for path in sys.argv[1:4])
MIB = 1 << 20
CONTAINER = 1024  # MiB
PROFILES = pathlib.Path(__file__).resolve().parents[1] / "standin/profiles"

# In MiB; each keeps its word by itself.
SOURCES = {
    "cubfc's": lambda mib: {"CUBFC_MEM_LIMIT": f"{mib}MiB"},
    "a share": lambda mib: {"CUBFC_MEM_LIMIT": f"{mib * 100 / 4096}%"},
    "a group's": lambda mib: {"CUBFC_GROUP": "g", "CUBFC_GROUP_LIMIT": f"{mib}MiB"},
    "HAMi's": lambda mib: {"CUDA_DEVICE_MEMORY_LIMIT": f"{mib}m"},
    "MPS's": lambda mib: {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={mib}M"},
}
DRIVERS = {
    "older": {},
    "from 615": {"STANDIN_PROFILE": str(PROFILES / "driver-limit.json")},
    "from 615, untold": {"STANDIN_PROFILE": str(PROFILES / "driver-limit-untold.json")},
}
ALLOCATORS = ("bfc", "vmm", "cuda_async", "platform")


class Container(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cubfc-container-")
        self.addCleanup(folder.cleanup)
        self.machine = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": STANDIN, "STANDIN_MEMORY": "4GiB",
                        "XDG_RUNTIME_DIR": folder.name, "LD_PRELOAD": LIBRARY, "CUBFC_LOG_LEVEL": "off",
                        "NVIDIA_GPU_MEMORY_LIMIT": str(CONTAINER), "NVIDIA_GPU_MEMORY_REQUEST": "256"}

    def seen(self, settings):
        """What a program sees: at first; with all but 2 MiB of the limit taken, in which devices count; and what it is
        refused."""
        with StepByStep(PROGRAMS, {**self.machine, **settings}) as program:
            seen = [program.say("info")]
            total = int(seen[0].split()[1]) // MIB
            seen += [program.say(f"take {total + 2}"), program.say(f"take {total - 2}"), program.say("info"),
                     program.say("take 4"), program.say("take 2"), program.say("info"), program.say("take 2")]
        return seen

    def test_beside_each_other_limit_on_each_driver(self):
        count = 0
        for name, source in SOURCES.items():
            for other in (CONTAINER // 2, CONTAINER, 2 * CONTAINER):
                least = min(other, CONTAINER)
                wanted = [f"{least * MIB} {least * MIB}", "error 2", "ok", f"{2 * MIB} {least * MIB}", "error 2", "ok",
                          f"0 {least * MIB}", "error 2"]
                for driver, profile in DRIVERS.items():
                    count += 1
                    with self.subTest(f"{name}, {other} MiB, driver {driver}"):
                        self.assertEqual(self.seen({**source(other), **profile}), wanted)
        self.assertEqual(count, 45)

    def test_alone_in_each_mode(self):
        for allocator in ALLOCATORS:
            seen = {}
            for driver, profile in DRIVERS.items():
                for free in ("sync", "deferred"):
                    seen[driver, free] = self.seen({**profile, "CUBFC_ALLOCATOR": allocator, "CUBFC_FREE": free})
            with self.subTest(allocator):
                self.assertEqual({key: value for key, value in seen.items() if value != seen["older", "sync"]}, {})
                self.assertEqual(seen["older", "sync"][0], f"{CONTAINER * MIB} {CONTAINER * MIB}")

    def test_by_default_a_quarter_of_it_is_left(self):
        """To programs without cubfc, whether the driver tells of its limit or not: it may be all that they have, too."""
        del self.machine["NVIDIA_GPU_MEMORY_LIMIT"], self.machine["NVIDIA_GPU_MEMORY_REQUEST"]
        self.machine["STANDIN_SHARED"] = os.path.join(self.machine["XDG_RUNTIME_DIR"], "device")
        bare = {name: value for name, value in self.machine.items() if name != "LD_PRELOAD"}
        for allocator in ("bfc", "vmm"):
            for driver in ("from 615", "from 615, untold"):
                with self.subTest(allocator=allocator, driver=driver), \
                        StepByStep(PROGRAMS, {**self.machine, **DRIVERS[driver], "CUBFC_ALLOCATOR": allocator}) as program, \
                        StepByStep(PROGRAMS, {**bare, **DRIVERS[driver]}) as sibling:
                    self.assertEqual(program.say("take 64"), "ok")
                    self.assertEqual([sibling.say("take 64") for _ in range(5)], ["ok"] * 4 + ["error 2"])
                    self.assertEqual([program.say("take 64") for _ in range(12)], ["ok"] * 11 + ["error 2"])


@unittest.skipUnless(own_cgroups.are_there(), "no namespace in which /sys/fs/cgroup is ours")
class ByTheKernel(unittest.TestCase):
    """dmem, the kernel's controller of device memory."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cubfc-container-")
        self.addCleanup(folder.cleanup)
        self.machine = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": STANDIN, "STANDIN_MEMORY": "4GiB",
                        "STANDIN_SHARED": os.path.join(folder.name, "device"), "XDG_RUNTIME_DIR": folder.name,
                        "LD_PRELOAD": LIBRARY, "CUBFC_LOG_LEVEL": "off"}
        self.own = own_cgroups.own()
        self.addCleanup(self.write, "max", "")

    def write(self, name, text, folder=None):
        ((folder or self.own) / f"dmem.{name}").write_text(text)

    def seen(self, **settings):
        """What a program is shown of the GPU, in MiB, before and after it has a context."""
        with StepByStep(PROGRAMS, {**self.machine, **settings}) as program:
            shown = program.info()
            if shown[1] < 4096:
                self.assertEqual(program.say(f"take {shown[1] + 2}"), "error 2")
            self.assertEqual(program.say(f"take {shown[1] - 200}"), "ok")
            self.assertEqual(program.say("take 300"), "error 2")
            return shown

    def test_the_least_counts(self):
        self.write("max", f"drm/0000:03:00.0/vram0 {256 * MIB}\nnvidia/0000:01:00.0/fb {1024 * MIB}\n")
        for name, source in SOURCES.items():
            for other in (512, 2048):
                with self.subTest(f"{name}, {other} MiB"):
                    self.assertEqual(self.seen(**source(other)), (min(1024, other),) * 2)
        self.assertEqual(self.seen(CUBFC_GROUP="g", CUBFC_GROUP_LIMIT="2GiB", CUBFC_MEM_LIMIT="3GiB"), (1024, 1024))

    def test_of_the_cgroups_above_it_too(self):
        if self.own == CGROUPS:
            self.skipTest("in no cgroup below another")
        self.addCleanup(self.write, "max", "", CGROUPS)
        self.write("max", f"nvidia/0000:01:00.0/fb {1024 * MIB}\n", CGROUPS)
        self.write("max", f"nvidia/0000:01:00.0/fb {2048 * MIB}\n")
        self.assertEqual(self.seen(CUBFC_MEM_LIMIT="3GiB"), (1024, 1024))

    def test_what_is_no_limit_of_this_gpu(self):
        for text in ("", "\n", "x" * 100000, "nvidia/0000:01:00.0/fb max\n", f"nvidia/0000:02:00.0/fb {MIB}\n",
                     "nvidia/0000:01:00.0/fb -5\n", f"nvidia/0000:01:00.0/fb {1 << 70}\n"):
            self.write("max", text)
            self.assertEqual(self.seen(CUBFC_MEM_LIMIT="2GiB"), (2048, 2048), text)

    def test_a_program_that_names_no_limit_has_the_kernels(self):
        self.write("max", f"nvidia/0000:01:00.0/fb {1024 * MIB}\n")
        self.assertEqual(self.seen(CUBFC_PREALLOCATE="false"), (4096, 4096))


if __name__ == "__main__":
    own_cgroups.run_tests()
