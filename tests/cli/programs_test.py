#!/usr/bin/env python3
"""What cubfc says of a program, in all of its ways: the summary, the trace and its report tell the
same bytes; a trace survives what may become of its program.

usage: programs_test.py COMMAND LIBRARY DRIVER_FOLDER PROGRAMS_FOLDER RANDOM_PROGRAMS
"""
import collections
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from clean_environment import clean_environment

COMMAND, LIBRARY, DRIVER, PROGRAMS, RANDOM = sys.argv[1:6]
STACK, OBJECTS = 0x87, 0x88  # shim/tell/trace_format.h: Kind
TRACE = ["play_trace", "--quiet", "--synthetic", "3000", "--seed", "1"]


class Program:
    """A program under cubfc, with a folder for what it writes."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def environment(self, **settings):
        return clean_environment(LD_PRELOAD=LIBRARY, LD_LIBRARY_PATH=DRIVER, CUBFC_LOG_LEVEL="warn") | settings

    def command(self, words):
        return [os.path.join(PROGRAMS, words[0]), *words[1:]]

    def run(self, words, **settings):
        return subprocess.run(self.command(words), env=self.environment(**settings), timeout=120,
                              capture_output=True, text=True, check=False)

    def report(self, name="trace.cubfc"):
        done = subprocess.run([COMMAND, "report", str(self.folder / name), "--format", "json", "-o",
                               "-"], capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return json.loads(done.stdout)


class Test(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="cubfc-test-")
        self.addCleanup(folder.cleanup)
        self.program = Program(folder.name)
        self.trace = str(self.program.folder / "trace.cubfc")
        self.summary = str(self.program.folder / "summary.json")

    def agree(self, words, status=0, **settings):
        done = self.program.run(words, CUBFC_TRACE=self.trace, CUBFC_SUMMARY=self.summary,
                                CUBFC_SHOW_STATS="1", **settings)
        self.assertEqual(done.returncode, status, done.stderr)
        summary = json.loads(pathlib.Path(self.summary).read_text())
        report = self.program.report()
        self.assertTrue(report["recording"]["closed"])
        self.assertEqual(sum(report["faults"].values()), 0, report["faults"])
        self.assertEqual(len(summary["devices"]), len(report["devices"]))
        for told, of in zip(summary["devices"], report["devices"]):
            self.assertEqual(told["peak_bytes_in_use"], of["peak_in_use_bytes"])
            self.assertEqual(told["peak_bytes_taken"], of["peak_taken_bytes"])
            self.assertEqual(told["bytes_in_use"], of["in_use_at_end_bytes"])
            self.assertEqual(told["bytes_taken"], of["taken_at_end_bytes"])
            self.assertEqual(told["num_allocs"], of["allocations"])
            self.assertEqual(told["num_refused"], of["failures"])
            self.assertEqual(sum(each["at_peak"] for each in told["callers"]),
                             told["peak_bytes_in_use"])
            self.assertEqual(sum(each["at_peak"] for each in told["memory"].values()),
                             told["peak_bytes_in_use"])
            self.assertIn(f"GPU {told['number']}: peak ", done.stderr)
        return summary, report

    def test_summary_and_report_tell_the_same_bytes(self):
        for settings in ({"CUBFC_FREE": "sync"}, {"CUBFC_FREE": "deferred"},
                         {"CUBFC_ALLOCATOR": "vmm"}, {"CUBFC_ALLOCATOR": "cuda_async"},
                         {"CUBFC_ALLOCATOR": "platform"}, {"CUBFC_PREALLOCATE": "false"},
                         {"CUBFC_PREALLOCATE": "whole"}, {"CUBFC_MEM_LIMIT": "512MiB"}):
            for words, status in ((TRACE, 0), (["program_contexts"], 0), (["program_threads"], 0),
                                  (["program_lifetimes"], 5)):  # it exits so, whatever happens
                with self.subTest(settings=settings, program=words[0]):
                    self.agree(words, status, **settings)

    def test_so_they_do_of_random_programs(self):
        device = {"STANDIN_DEVICES": "2", "STANDIN_MEMORY": "256MiB", "STANDIN_WORK_DELAY": "20us",
                  "CUBFC_PREALLOCATE_LIMIT": "32MiB", "CUBFC_LOG_LEVEL": "error"}
        for number, settings in enumerate((
                {"CUBFC_FREE": "sync"}, {"CUBFC_FREE": "deferred"}, {"CUBFC_ALLOCATOR": "vmm"},
                {"CUBFC_FREE": "deferred", "CUBFC_STREAM_ORDERED": "arena"},
                {"CUBFC_FREE": "deferred", "CUBFC_ALLOCATOR": "vmm", "CUBFC_PREALLOCATE": "false"},
                {"CUBFC_ALLOCATOR": "platform"})):
            with self.subTest(settings=settings):
                self.agree([RANDOM, "--seed", str(1000 * number + 1), "--programs", "60"],
                           **device, **settings)

    def test_who_asked_is_the_program_itself(self):
        summary, report = self.agree(TRACE)
        self.assertEqual([each["name"] for each in summary["devices"][0]["callers"]],
                         ["play_trace"])
        self.assertTrue(any(each["caller"].endswith("/play_trace") for each in report["callers"]))

    def test_nobody_is_told_apart_where_that_is_not_wanted(self):
        summary, _ = self.agree(TRACE, CUBFC_TRACK_CALLERS="false")
        self.assertEqual([each["name"] for each in summary["devices"][0]["callers"]], ["unknown"])

    def test_a_failure_is_recorded_with_its_report(self):
        done = self.program.run(TRACE, CUBFC_TRACE=self.trace, CUBFC_MEM_LIMIT="40MiB",
                                CUBFC_SUMMARY=self.summary)
        report = self.program.report()
        refused = json.loads(pathlib.Path(self.summary).read_text())["devices"][0]["num_refused"]
        self.assertGreater(refused, 0, done.stderr)
        self.assertEqual(len(report["out_of_memory"]), refused)
        self.assertIn("  cause     ", report["out_of_memory"][0]["text"])
        self.assertIn("by        play_trace ", done.stderr)

    def test_what_the_program_is_told_is_the_same_too(self):
        take = ("import ctypes;"
                "cu, here, at = ctypes.CDLL('libcuda.so.1'), ctypes.c_void_p(), ctypes.c_uint64();"
                "free, total = ctypes.c_size_t(), ctypes.c_size_t();"
                "cu.cuInit(0); cu.cuDevicePrimaryCtxRetain(ctypes.byref(here), 0);"
                "cu.cuCtxSetCurrent(here);"
                "print(sum(cu.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size))"
                " for size in (1 << 20, 3000000, 40 << 20, 5000)),"
                " cu.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)),"
                " total.value - free.value)")
        lead = 64 << 10  # of each slice, which no block can have
        for allocator, not_usable in (("vmm", 0), ("cuda_async", 0), ("platform", 0), ("bfc", lead)):
            with self.subTest(allocator=allocator):
                done = subprocess.run([sys.executable, "-c", take], capture_output=True, text=True,
                                      check=False, env=self.program.environment(
                                          CUBFC_ALLOCATOR=allocator, CUBFC_MEM_LIMIT="512MiB",
                                          CUBFC_SUMMARY=self.summary))
                told = json.loads(pathlib.Path(self.summary).read_text())["devices"][0]
                self.assertEqual(done.stdout, f"0 0 {told['bytes_in_use'] + not_usable}\n")

    def test_who_else_is_on_a_full_device_is_told(self):
        take = ("import ctypes, sys;"
                "cu, here, at = ctypes.CDLL('libcuda.so.1'), ctypes.c_void_p(), ctypes.c_uint64();"
                "cu.cuInit(0); cu.cuDevicePrimaryCtxRetain(ctypes.byref(here), 0);"
                "cu.cuCtxSetCurrent(here);"
                "print(cu.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(1400 << 20)), flush=True);"
                "sys.stdin.read()")
        settings = {"STANDIN_SHARED": str(self.program.folder / "device"), "STANDIN_MEMORY": "2GiB",
                    "CUBFC_PREALLOCATE": "false", "CUBFC_LOG_LEVEL": "warn"}
        words = [sys.executable, "-c", take]
        first = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                 env=self.program.environment(**settings))
        self.addCleanup(first.communicate)
        self.assertEqual(first.stdout.readline(), "0\n")
        second = subprocess.run(words, input="", capture_output=True, text=True, check=False,
                                env=self.program.environment(**settings))
        self.assertEqual(second.stdout, "2\n")
        self.assertIn(f"  others    pid {first.pid} (", second.stderr)
        self.assertIn("1.37 GiB", second.stderr)

    def test_one_of_the_same_number_in_another_container_is_told(self):
        alone = ["unshare", "--pid", "--fork", "--kill-child"]
        if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no rights for process numbers of one's own")
        take = ("import ctypes, sys;"
                "cu, here, at = ctypes.CDLL('libcuda.so.1'), ctypes.c_void_p(), ctypes.c_uint64();"
                "cu.cuInit(0); cu.cuDevicePrimaryCtxRetain(ctypes.byref(here), 0);"
                "cu.cuCtxSetCurrent(here);"
                "print([cu.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(700 << 20)) for _ in '12'],"
                " flush=True);"
                "sys.stdin.read()")
        settings = {"STANDIN_SHARED": str(self.program.folder / "device"), "STANDIN_MEMORY": "3GiB",
                    "CUBFC_MEM_LIMIT": "1GiB", "CUBFC_LOG_LEVEL": "warn"}
        words = [*alone, sys.executable, "-c", take]
        first = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                 env=self.program.environment(**settings), stderr=subprocess.DEVNULL)
        self.addCleanup(first.communicate)
        self.assertEqual(first.stdout.readline(), "[0, 2]\n")
        second = subprocess.run(words, input="", capture_output=True, text=True, check=False,
                                env=self.program.environment(**settings))
        self.assertEqual(second.stdout, "[0, 2]\n")
        self.assertIn("  others    pid 1 (", second.stderr)

    def test_stacks_begin_where_the_program_calls(self):
        self.agree(TRACE, CUBFC_TRACE_STACKS="8")
        text = pathlib.Path(self.trace).read_bytes()
        self.assertIn(b"/play_trace\n", text)

    def test_what_is_loaded_is_told_once_however_deep_stacks_are(self):
        """A stack that ends before it is as deep as asked for has no frame that no object has."""
        self.agree(TRACE, CUBFC_TRACE_STACKS="64")
        data = pathlib.Path(self.trace).read_bytes()
        kinds, at = collections.Counter(), 64
        while at < len(data):
            time_and_kind, _, size = struct.unpack_from("<QQQ", data, at)
            kind = time_and_kind & 0xff
            kinds[kind] += 1
            if kind == STACK:
                frames = struct.unpack_from(f"<{size // 8}Q", data, at + 32)
                self.assertNotIn(0, frames)
                self.assertLess(len(frames), 64)
            at += 32 + ((size + 31) // 32 * 32 if kind & 0x80 else 0)
        self.assertGreater(kinds[STACK], 1000)
        self.assertEqual(kinds[OBJECTS], 1)

    def test_a_trace_ends_at_its_limit_and_says_so(self):
        for limit in (1, 3000, 40000, 90000):
            with self.subTest(limit=limit):
                done = self.program.run(TRACE, CUBFC_TRACE=self.trace,
                                        CUBFC_TRACE_LIMIT=str(limit))
                self.assertEqual(done.returncode, 0)
                self.assertIn("which is the limit", done.stderr)
                self.assertLessEqual(os.path.getsize(self.trace), max(limit, 96))
                self.assertTrue(self.program.report()["recording"]["reached_limit"])

    def test_a_program_that_may_write_no_large_file_goes_on(self):
        words = ("import ctypes, resource;"
                 "cu, here, at = ctypes.CDLL('libcuda.so.1'), ctypes.c_void_p(), ctypes.c_uint64();"
                 "cu.cuInit(0);"
                 "resource.setrlimit(resource.RLIMIT_FSIZE, (300000, 300000));"
                 "cu.cuDevicePrimaryCtxRetain(ctypes.byref(here), 0); cu.cuCtxSetCurrent(here);"
                 "print(sum(cu.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(4096)) for _ in range(20000)))")
        done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True,
                              env=self.program.environment(CUBFC_TRACE=self.trace), check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "0\n"), done.stderr)
        self.assertTrue(self.program.report()["recording"]["reached_limit"])

    def test_what_cannot_be_written_to_is_named_and_costs_the_trace_only(self):
        fifo = str(self.program.folder / "fifo")
        os.mkfifo(fifo)
        link = str(self.program.folder / "link")
        os.symlink("/etc/hostname", link)
        for path in ("/proc/no/such/folder", fifo, link, str(self.program.folder), "/dev/full"):
            with self.subTest(path=path):
                done = self.program.run(TRACE, CUBFC_TRACE=path, CUBFC_SUMMARY=path + "/x.json")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("CUBFC_TRACE: " + path, done.stderr)
                self.assertTrue(os.path.isfile(path + "/x.json") or
                                "CUBFC_SUMMARY: " + path in done.stderr)

    def test_what_was_written_before_a_kill_can_be_read(self):
        for depth in ("0", "8"):
            with self.subTest(stacks=depth):
                self.kill_while_it_records(depth)

    def kill_while_it_records(self, depth):
        pathlib.Path(self.trace).unlink(missing_ok=True)
        words = ["play_trace", "--quiet", "--synthetic", "4000000", "--seed", "1"]
        running = subprocess.Popen(self.program.command(words), stdout=subprocess.DEVNULL,
                                   env=self.program.environment(CUBFC_TRACE=self.trace,
                                                                CUBFC_TRACE_STACKS=depth))
        until = time.monotonic() + 60
        while time.monotonic() < until and not (os.path.exists(self.trace) and
                                                os.path.getsize(self.trace) > 2 << 20):
            time.sleep(0.01)
        running.send_signal(signal.SIGKILL)
        running.wait()
        report = self.program.report()
        self.assertFalse(report["recording"]["closed"])
        self.assertGreater(report["totals"]["allocations"], 5000)
        self.assertEqual(sum(report["faults"].values()), 0, report["faults"])

    def test_two_processes_that_are_given_one_name_write_two_files(self):
        words = self.program.command(["play_trace", "--quiet", "--synthetic", "60000", "--seed", "1"])
        both = [subprocess.Popen(words, env=self.program.environment(CUBFC_TRACE=self.trace),
                                 stdout=subprocess.DEVNULL) for _ in range(2)]
        self.assertEqual([each.wait(120) for each in both], [0, 0])
        for name in os.listdir(self.program.folder):
            self.assertTrue(self.program.report(name)["recording"]["closed"])

    def test_a_program_may_close_all_descriptors_and_go_elsewhere(self):
        words = ("import ctypes, os;"
                 "cu, here, at = ctypes.CDLL('libcuda.so.1'), ctypes.c_void_p(), ctypes.c_uint64();"
                 "cu.cuInit(0); cu.cuDevicePrimaryCtxRetain(ctypes.byref(here), 0);"
                 "cu.cuCtxSetCurrent(here); cu.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(4096));"
                 "os.closerange(3, 1000); os.chdir('/');"
                 "mine = [os.open(os.environ['MINE'], os.O_RDWR | os.O_CREAT) for _ in range(64)];"
                 "print(sum(cu.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(4096)) for _ in range(20000)))")
        mine = self.program.folder / "mine"
        done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True,
                              cwd=self.program.folder, check=False,
                              env=self.program.environment(CUBFC_TRACE="trace.cubfc",
                                                           MINE=str(mine)))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "0\n", ""))
        self.assertEqual(mine.read_bytes(), b"")
        self.assertEqual(self.program.report()["totals"]["allocations"], 20001)

    def test_a_process_that_uses_no_gpu_writes_nothing(self):
        done = subprocess.run(["/bin/sh", "-c", "echo hello"], capture_output=True, text=True,
                              env=self.program.environment(CUBFC_TRACE=self.trace,
                                                           CUBFC_SUMMARY=self.summary), check=True)
        self.assertEqual((done.stdout, done.stderr), ("hello\n", ""))
        self.assertEqual(os.listdir(self.program.folder), [])

    def test_replaying_what_was_recorded_needs_what_was_taken(self):
        self.agree(TRACE, CUBFC_PREALLOCATE="false")
        done = subprocess.run([COMMAND, "replay", self.trace, "--allocator", "bfc", "--preallocate",
                               "false", "--json"], capture_output=True, text=True, timeout=120,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
