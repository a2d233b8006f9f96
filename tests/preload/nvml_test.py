#!/usr/bin/env python3
"""What NVML says of a GPU's memory under a limit that programs see: the limit, and what is used of it; without one, what
it says without cubfc, bit for bit. On the software NVML and driver.

    nvml_test.py LIBRARY STANDIN_FOLDER NVML_FOLDER PROGRAMS_FOLDER COMMAND
"""

import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
from step_by_step import StepByStep  # noqa: E402

MIB = 1 << 20
TOTAL = 4096  # MiB of a device


def ask():
    """In a process of its own: all that NVML says, as JSON. Each function gets a buffer of bytes that are not zero, and
    what is in it then counts."""
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    names = sys.argv[2:]
    assert nvml.nvmlInit_v2() == 0
    count = ctypes.c_uint()
    assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
    answers = []
    for index in range(count.value):
        handle = ctypes.c_void_p()
        assert nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0
        answer = {}
        for name in names:
            buffer = ctypes.create_string_buffer(b"\xa5" * 256, 256)
            if name == "nvmlDeviceGetMemoryInfo_v2":
                ctypes.memmove(buffer, (0x02000028).to_bytes(4, "little"), 4)
            room = ctypes.c_uint(96)
            answer[name] = [getattr(nvml, name)(handle, buffer, room), buffer.raw.hex()]
        wrong = ctypes.create_string_buffer(b"\x01" * 40, 40)  # of no version
        answer["wrong version"] = [nvml.nvmlDeviceGetMemoryInfo_v2(handle, wrong), wrong.raw.hex()]
        answer["nowhere"] = [nvml.nvmlDeviceGetMemoryInfo(handle, None), nvml.nvmlDeviceGetMemoryInfo_v2(handle, None)]
        answers.append(answer)
    buffer = ctypes.create_string_buffer(b"\xa5" * 256, 256)
    answers.append({"no GPU": [nvml.nvmlDeviceGetMemoryInfo(None, buffer), buffer.raw.hex()]})
    print(json.dumps(answers))


if sys.argv[1:2] == ["--ask"]:
    ask()
    sys.exit(0)

GB10 = str(pathlib.Path(__file__).resolve().parents[1] / "standin/profiles/gb10.json")
LIBRARY, STANDIN, NVML, PROGRAMS, COMMAND = (os.path.realpath(path) for path in sys.argv[1:6])


def getters():
    """That take a device, somewhere to write to, and perhaps how much room is there."""
    listed = subprocess.run(["nm", "-D", "--defined-only", f"{NVML}/libnvidia-ml.so.1"], capture_output=True, text=True,
                            check=True).stdout
    names = {line.split()[-1] for line in listed.splitlines()}
    return sorted(name for name in names
                  if name.startswith(("nvmlDeviceGet", "nvmlDeviceIs")) and not re.search("HandleBy|GetCount|MemoryLimits", name))


def words(hex_text, offset=0):
    """MiB, of each 64-bit number."""
    data = bytes.fromhex(hex_text)
    return [int.from_bytes(data[at:at + 8], "little") / MIB for at in range(offset, len(data), 8)]


class Holder(StepByStep):
    """A program under cubfc that has so many MiB of the first GPU."""

    def __init__(self, machine, mib, **settings):
        super().__init__(PROGRAMS, {**machine, "LD_PRELOAD": LIBRARY, "CUBFC_PREALLOCATE": "false", **settings})
        self.free, self.total = self.info()
        assert self.say(f"take {mib}") == "ok"


class Nvml(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cubfc-nvml-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.machine = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": f"{STANDIN}:{NVML}", "STANDIN_DEVICES": "2",
                        "STANDIN_MEMORY": f"{TOTAL}MiB", "STANDIN_SHARED": str(self.folder / "device"),
                        "XDG_RUNTIME_DIR": str(self.folder)}

    def asked(self, preload=LIBRARY, names=("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"), **settings):
        environment = {**self.machine, **settings}
        if preload:
            environment["LD_PRELOAD"] = preload
        done = subprocess.run([sys.executable, __file__, "--ask", *names], env=environment, capture_output=True, text=True,
                              timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def memory(self, gpu=0, **settings):
        """(total, used) by both functions, whose figures must agree and add up; of the older one its free, too."""
        answer = self.asked(**settings)[gpu]
        error, text = answer["nvmlDeviceGetMemoryInfo"]
        error_2, text_2 = answer["nvmlDeviceGetMemoryInfo_v2"]
        self.assertEqual((error, error_2), (0, 0))
        total, free, used = words(text)[:3]
        total_2, reserved_2, free_2, used_2 = words(text_2, 8)[:4]
        self.assertEqual((total, used), (total_2, used_2))
        self.assertEqual(total, free + used)
        self.assertEqual(total, reserved_2 + free_2 + used_2)
        self.assertEqual(answer["wrong version"], [25, "01" * 40])
        self.assertEqual(answer["nowhere"], [2, 2])
        return total, used

    def test_without_a_limit_every_answer_is_nvmls(self):
        names = getters()
        self.assertGreater(len(names), 30)
        self.assertIn("nvmlDeviceGetMemoryInfo_v2", names)
        with Holder(self.machine, 100, CUBFC_MEM_LIMIT="1GiB"):
            bare = self.asked(preload=None, names=names)
            for settings in ({}, {"XLA_CLIENT_MEM_FRACTION": "0.5"}, {"CUBFC_NVML": "true"},
                             {"CUBFC_MEM_LIMIT": "1GiB", "CUBFC_NVML": "false"}, {"CUBFC_MEM_LIMIT": "1GiB", "CUBFC_DISABLE": "1"},
                             {"CUBFC_MEM_LIMIT": "many"}, {"CUDA_DEVICE_MEMORY_LIMIT": "0"}):
                with self.subTest(settings):
                    self.assertEqual(self.asked(names=names, **settings), bare)

    def test_under_a_limit_every_other_answer_is_nvmls(self):
        names = [name for name in getters() if not name.startswith("nvmlDeviceGetMemoryInfo")]
        for machine in ({}, {"NVML_ORDER": "reversed"}, {"NVML_MIG": "1"}, {"STANDIN_PROFILE": GB10}):
            with self.subTest(machine):
                self.assertEqual(self.asked(names=names, CUBFC_MEM_LIMIT="1GiB", **machine),
                                 self.asked(names=names, preload=None, **machine))

    def test_the_limit_is_the_gpu(self):
        for limit, total in (("1GiB", 1024), ("25%", 1024), (f"{TOTAL}MiB", TOTAL), ("8GiB", TOTAL), ("1000MiB", 1000)):
            with self.subTest(limit), Holder(self.machine, 300, CUBFC_MEM_LIMIT=limit) as holder:
                self.assertEqual(self.memory(CUBFC_MEM_LIMIT=limit), (total, 300))
                self.assertEqual(holder.total, total)
                self.assertEqual(self.memory(gpu=1, CUBFC_MEM_LIMIT=limit), (total, 0))

    def test_used_is_what_all_with_this_limit_have(self):
        limit = {"CUBFC_MEM_LIMIT": "1GiB"}
        with Holder(self.machine, 300, **limit), Holder(self.machine, 200, **limit), \
                Holder(self.machine, 100, CUBFC_MEM_LIMIT="2GiB"), Holder(self.machine, 50):
            self.assertEqual(self.memory(**limit), (1024, 500))
            self.assertEqual(self.memory(CUBFC_MEM_LIMIT="2GiB"), (2048, 100))
            # What is more than the limit, since each may have so much, is all of it and no more.
            with Holder(self.machine, 900, **limit):
                self.assertEqual(self.memory(**limit), (1024, 1024))

    def test_a_groups_is_the_groups(self):
        group = {"CUBFC_GROUP": "g", "CUBFC_GROUP_LIMIT": "1GiB"}
        self.assertEqual(self.memory(**group), (1024, 0))
        with Holder(self.machine, 300, **group), Holder(self.machine, 200, **group), Holder(self.machine, 100):
            self.assertEqual(self.memory(**group), (1024, 500))
            self.assertEqual(self.memory(**{**group, "CUBFC_GROUP": "another"}), (1024, 0))
            # Its own, where that is less.
            self.assertEqual(self.memory(**group, CUBFC_MEM_LIMIT="512MiB"), (512, 0))

    def test_a_groups_that_is_changed_is_what_it_is_by_now(self):
        group = {"CUBFC_GROUP": "g", "CUBFC_GROUP_LIMIT": "2GiB"}

        def change(size):
            subprocess.run([COMMAND, "limit", "--group", "g", size], env=self.machine, check=True, capture_output=True)

        with Holder(self.machine, 300, **group, CUBFC_MEM_LIMIT="1GiB"), Holder(self.machine, 300, **group):
            both = {**group, "CUBFC_MEM_LIMIT": "1GiB"}
            self.assertEqual(self.memory(**both), (1024, 300))
            change("1536MiB")
            self.assertEqual(self.memory(**group), (1536, 600))
            self.assertEqual(self.memory(**both), (1024, 300))
            change("800MiB")  # less than the process's own
            self.assertEqual(self.memory(**group), (800, 600))
            self.assertEqual(self.memory(**both), (800, 600))
            change("500MiB")
            self.assertEqual(self.memory(**group), (500, 500))
            change("3GiB")  # whoever joins now is held to what he was told
            self.assertEqual(self.memory(**group), (2048, 600))
        self.assertEqual(self.memory(**group), (2048, 0))

    def test_others_words_are_shown_as_programs_see_them(self):
        for settings in ({"CUDA_DEVICE_MEMORY_LIMIT": "512m"}, {"GPU_MEMORY_LIMIT": "512m"},
                         {"NVIDIA_GPU_MEMORY_LIMIT": "512", "NVIDIA_GPU_MEMORY_REQUEST": "256"},
                         {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=512M,1=512M"}):
            with self.subTest(settings), Holder(self.machine, 100, **settings) as holder:
                self.assertEqual(holder.total, 512)
                self.assertEqual(self.memory(**settings), (512, 100))

    def test_gpus_are_told_apart_by_what_they_are(self):
        """A limit of GPU 0, as CUDA counts: known as soon as somebody who has it uses the GPU."""
        limit = {"CUBFC_MEM_LIMIT": "0=1GiB"}
        for order in ({}, {"NVML_ORDER": "reversed"}, {"NVML_MIG": "1"}):
            with self.subTest(order):
                first, second = (1, 0) if "NVML_ORDER" in order else (0, 1)
                self.assertEqual(self.memory(gpu=first, **limit, **order), (TOTAL, 0))
                with Holder(self.machine, 300, **limit):
                    self.assertEqual(self.memory(gpu=first, **limit, **order), (1024, 300))
                    self.assertEqual(self.memory(gpu=second, **limit, **order), (TOTAL, 0))

    def test_a_share_is_of_what_cuda_says(self):
        for limit, total in (("25%", 1024), ("8GiB", TOTAL), ("1GiB", 1024)):
            with self.subTest(limit), Holder(self.machine, 300, CUBFC_MEM_LIMIT=limit):
                self.assertEqual(self.memory(CUBFC_MEM_LIMIT=limit, NVML_LARGER="154"), (total, 300))

    def test_a_member_that_was_killed_uses_nothing(self):
        group = {"CUBFC_GROUP": "g", "CUBFC_GROUP_LIMIT": "1GiB"}
        with Holder(self.machine, 100, **group):
            with Holder(self.machine, 300, **group) as killed:
                self.assertEqual(self.memory(**group), (1024, 400))
                killed.process.kill()
                killed.process.wait()
            self.assertEqual(self.memory(**group), (1024, 100))
        self.assertEqual(self.memory(**group), (1024, 0))

    def test_a_library_that_is_loaded_again(self):
        """And asked for another of its functions then."""
        program = ("import ctypes, _ctypes, sys\n"
                   "def ask(name, words, first):\n"
                   "    lib = ctypes.CDLL('libnvidia-ml.so.1'); handle = ctypes.c_void_p(); out = (ctypes.c_ulonglong * 5)(first)\n"
                   "    assert lib.nvmlInit_v2() == 0 and lib.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0\n"
                   "    assert getattr(lib, name)(handle, out) == 0\n"
                   "    _ctypes.dlclose(lib._handle)\n"
                   "    print(out[words] >> 20)\n"
                   "for i in range(3):\n"
                   "    ask('nvmlDeviceGetMemoryInfo', 0, 0)\n"
                   "    ask('nvmlDeviceGetMemoryInfo_v2', 1, 0x02000028)\n")
        done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, check=False,
                              env={**self.machine, "LD_PRELOAD": LIBRARY, "CUBFC_MEM_LIMIT": "1GiB"})
        self.assertEqual((done.returncode, done.stdout), (0, "1024\n" * 6), done.stderr)

    def test_many_threads_and_processes_look_on(self):
        """Nobody who joins the group meanwhile is kept out, and no figure is another one."""
        group = {"CUBFC_GROUP": "g", "CUBFC_GROUP_LIMIT": "1GiB"}
        program = ("import ctypes, threading\n"
                   "lib = ctypes.CDLL('libnvidia-ml.so.1'); handle = ctypes.c_void_p(); seen = set()\n"
                   "assert lib.nvmlInit_v2() == 0 and lib.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0\n"
                   "def look():\n"
                   "    out = (ctypes.c_ulonglong * 3)()\n"
                   "    for i in range(100):\n"
                   "        assert lib.nvmlDeviceGetMemoryInfo(handle, out) == 0\n"
                   "        seen.add(out[2] >> 20)\n"
                   "threads = [threading.Thread(target=look) for i in range(16)]\n"
                   "for each in threads: each.start()\n"
                   "for each in threads: each.join()\n"
                   "print(sorted(seen))\n")
        with Holder(self.machine, 300, **group):
            lookers = [subprocess.Popen([sys.executable, "-c", program], text=True, stdout=subprocess.PIPE,
                                        env={**self.machine, "LD_PRELOAD": LIBRARY, **group}) for _ in range(2)]
            for looker in lookers:
                self.assertEqual(looker.communicate()[0], "[300]\n")
                self.assertEqual(looker.returncode, 0)

    def test_what_nvml_does_not_tell_stays_untold(self):
        for settings in ({}, {"CUBFC_MEM_LIMIT": "1GiB"}):
            answer = self.asked(STANDIN_PROFILE=GB10, **settings)[0]
            self.assertEqual(answer["nvmlDeviceGetMemoryInfo"], [3, "a5" * 256])
            self.assertEqual(answer["nvmlDeviceGetMemoryInfo_v2"][0], 3)

    def test_a_library_without_what_is_needed_is_left_alone(self):
        """One that has one function alone, and one that is no NVML."""
        source = self.folder / "one.c"
        source.write_text("int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* out)\n"
                          "{ out[0] = 7; out[1] = 4; out[2] = 3; return 0; }\n")
        program = ("import ctypes, sys\n"
                   "lib = ctypes.CDLL(sys.argv[1]); out = (ctypes.c_ulonglong * 3)()\n"
                   "assert not hasattr(lib, 'nvmlDeviceGetMemoryInfo_v2')\n"
                   "print(lib.nvmlDeviceGetMemoryInfo(None, out), list(out))\n")
        for name in ("libnvidia-ml.so.1", "libother.so"):
            library = self.folder / name
            subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
            done = subprocess.run([sys.executable, "-c", program, library], text=True, capture_output=True, check=False,
                                  env={**self.machine, "LD_PRELOAD": LIBRARY, "CUBFC_MEM_LIMIT": "1GiB"})
            self.assertEqual((done.returncode, done.stdout), (0, "0 [7, 4, 3]\n"), done.stderr)

    def test_who_has_the_gpu_sees_its_own_use(self):
        """In the process itself, also where it shares no figures."""
        program = ("import ctypes\n"
                   "cuda, nvml = ctypes.CDLL('libcuda.so.1'), ctypes.CDLL('libnvidia-ml.so.1')\n"
                   "P, context, block = ctypes.c_void_p, ctypes.c_void_p(), ctypes.c_uint64()\n"
                   "assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0\n"
                   "assert cuda.cuCtxSetCurrent(context) == 0\n"
                   "assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(300 << 20)) == 0\n"
                   "handle, out = P(), (ctypes.c_ulonglong * 3)()\n"
                   "assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0\n"
                   "assert nvml.nvmlDeviceGetMemoryInfo(handle, out) == 0\n"
                   "print([value >> 20 for value in out])\n")
        for settings in ({}, {"CUBFC_SHARE_STATS": "false"}, {"CUBFC_GROUP": "own", "CUBFC_GROUP_LIMIT": "1GiB"}):
            for allocator in ("bfc", "vmm", "cuda_async", "platform"):
                with self.subTest(settings=settings, allocator=allocator):
                    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, check=False,
                                          env={**self.machine, "LD_PRELOAD": LIBRARY, "CUBFC_MEM_LIMIT": "1GiB",
                                               "CUBFC_PREALLOCATE": "false", "CUBFC_ALLOCATOR": allocator, **settings})
                    self.assertEqual(done.returncode, 0, done.stderr)
                    total, free, used = json.loads(done.stdout)
                    self.assertEqual((total, free + used), (1024, 1024))
                    self.assertGreaterEqual(used, 300)
                    self.assertLess(used, 400)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
