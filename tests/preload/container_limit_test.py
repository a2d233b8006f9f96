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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
