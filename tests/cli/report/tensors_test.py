#!/usr/bin/env python3
"""Tensors of PyTorch's cache in a report: of libraries that have PyTorch's names and tell of blocks as PyTorch does.

usage: tensors_test.py CUBFC LIBRARY DRIVER_FOLDER LIBC10_CUDA [unittest's words]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from clean_environment import clean_environment  # noqa: E402

CUBFC, LIBRARY, DRIVER, CACHE = map(os.path.abspath, sys.argv[1:5])
PROGRAM = pathlib.Path(__file__).resolve().parent / "tensors_program.py"
PATIENCE = 120
MIB = 1 << 20


class Tensors(unittest.TestCase):
    maxDiff = 4000

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.trace = pathlib.Path(folder.name) / "run.cubfc"

    def run_program(self, *what, **more):
        environment = clean_environment(LD_LIBRARY_PATH=f"{DRIVER}:{os.path.dirname(CACHE)}", LD_PRELOAD=LIBRARY, STANDIN_MEMORY="64MiB",
                                        CUBFC_TRACE=str(self.trace), CUBFC_TRACE_STACKS="16", PYTHONDONTWRITEBYTECODE="1") | more
        done = subprocess.run([sys.executable, PROGRAM, CACHE, *what], env=environment, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def report(self, *words):
        done = subprocess.run([CUBFC, "report", self.trace, *words], capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def told(self, *words):
        return json.loads(self.report("--format", "json", "-o", "-", *words))

    def line_of(self, words):
        """Where the program has them."""
        lines = PROGRAM.read_text(encoding="utf-8").splitlines()
        return 1 + next(number for number, line in enumerate(lines) if words in line)

    def test_tensors_stand_in_the_place_of_the_segment(self):
        self.run_program("keep")
        told = self.told()
        self.assertEqual(told["recording"]["tensors_for_segments"], {"blocks": 1, "peak_bytes": 2 * MIB})
        self.assertEqual(told["totals"]["allocations"], 2)
        self.assertEqual((told["peak"]["in_use_bytes"], told["end"]["in_use_bytes"]), (4000, 3000))
        self.assertEqual({fault for fault, count in told["faults"].items() if count}, set())
        self.assertEqual([os.path.basename(one["caller"]) for one in told["peak"]["by_caller"]], ["libc10_cuda.so"])
        # What keeps the tensor is the line that had it allocated.
        kept = [line for line in told["lines"] if line["at_end"]["bytes"] > 0]
        self.assertEqual([(line["line"], line["at_end"]) for line in kept],
                         [(f"{PROGRAM}:{self.line_of('library.tell_of_tensor(')} (Cache.tell)", {"bytes": 3000, "blocks": 1})])
        text = self.report("--text")
        self.assertIn("in the place of 1 segments of its cache, of at\n            most 2.00 MiB; --segments", text)
        self.assertEqual([line for line in text.splitlines() if len(line) > 80], [])

    def test_segments_are_shown_when_they_are_asked_for(self):
        self.run_program("keep")
        told = self.told("--segments")
        self.assertIsNone(told["recording"]["tensors_for_segments"])
        self.assertEqual((told["totals"]["allocations"], told["peak"]["in_use_bytes"]), (1, 2 * MIB))
        self.assertIn("Without --segments this", self.report("--text", "--segments"))

    def test_without_stacks_or_where_it_is_not_wanted_they_are_not_recorded(self):
        for settings in ({"CUBFC_TRACE_STACKS": "0"}, {"CUBFC_TRACE_TENSORS": "false"}):
            with self.subTest(settings=settings):
                self.run_program("keep", "old", **settings)
                told = self.told()
                self.assertIsNone(told["recording"]["tensors_for_segments"])
                self.assertEqual(told["totals"]["allocations"], 1)
        self.assertIn("CUBFC_TRACE_TENSORS=true", self.report("--text"))

    def test_pytorchs_own_function_is_always_called(self):
        everything = ("keep", "old", "of_the_host", "nowhere", "fork", "again", "threads")
        self.run_program(*everything)
        self.run_program(*everything, CUBFC_DISABLE="1")
        os.unlink(self.trace)
        self.run_program(*everything, CUBFC_TRACE="")
        self.assertFalse(self.trace.exists())

    def test_both_forms_of_the_function_are_recorded_and_no_host_memory(self):
        self.run_program("old", "of_the_host")
        told = self.told()
        self.assertEqual((told["totals"]["allocations"], told["totals"]["frees"]), (1, 1))
        self.assertEqual(told["peak"]["in_use_bytes"], 1000)

    def test_a_child_after_a_fork_is_not_in_its_parents_trace(self):
        self.run_program("fork")
        self.assertEqual(self.told()["peak"]["in_use_bytes"], 4000)

    def test_libraries_that_are_loaded_again_elsewhere_are_found(self):
        self.run_program("again")
        told = self.told()
        self.assertEqual(told["recording"]["tensors_for_segments"]["blocks"], 1)
        self.assertEqual(told["peak"]["in_use_bytes"], 2 * MIB + 4000)  # the first segment has no tensor

    def test_what_lies_in_no_block_is_physical_memory(self):
        self.run_program("nowhere")
        told = self.told()
        self.assertEqual([one["memory"] for one in told["peak"]["by_memory"]], ["arena", "mapped"])
        self.assertEqual(told["peak"]["in_use_bytes"], 2 * MIB + 512)
        self.assertEqual(told["faults"]["frees_of_nothing"], 1)

    def test_threads_that_allocate_at_once_are_all_there(self):
        self.run_program("threads")
        told = self.told()
        self.assertEqual((told["totals"]["allocations"], told["totals"]["frees"]), (1600, 1600))
        self.assertEqual({fault for fault, count in told["faults"].items() if count}, set())

    def test_what_pytorch_takes_from_its_cache_is_not_replayed(self):
        self.run_program("keep")
        done = subprocess.run([CUBFC, "replay", self.trace, "--json"], capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("4000", done.stdout)
        self.assertIn(str(2 * MIB), done.stdout)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
