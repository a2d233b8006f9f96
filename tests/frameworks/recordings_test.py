"""The comparison of two recordings of memory: what is equal, what is left over, and what is no recording."""
import contextlib
import io
import os
import pathlib
import pickle
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent)]

import environments  # noqa: E402
import recordings  # noqa: E402


def trace_of(*sizes):
    """Each size is allocated, and freed when the next but one comes."""
    events, live = [], []
    for size in sizes:
        live.append(size)
        events.append({"action": "alloc", "size": size, "addr": 0})
        if len(live) > 2:
            freed = live.pop(0)
            events += [{"action": "free_requested", "size": freed}, {"action": "free_completed", "size": freed}]
    return events


def recorded(*sizes):
    return recordings.recording_of(trace_of(*sizes))


def quietly(function, *arguments):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        return function(*arguments), said.getvalue()


class Comparing(unittest.TestCase):
    sizes = [512 * (1 + seed * 7919 % 97) for seed in range(400)]

    def test_the_same_is_equal_to_the_byte(self):
        status, said = quietly(recordings.compare, recorded(*self.sizes), recorded(*self.sizes))
        self.assertEqual(status, 0)
        self.assertIn("(100.00%)", said)
        self.assertIn("only recorded none\nonly here     none\n", said)
        self.assertEqual(said.count("1.0000"), 1)  # the peak; nothing was reserved

    def test_what_one_has_more_is_left_out_and_the_rest_is_in_step(self):
        workspace = 33554432
        more = [*self.sizes[:100], *[workspace] * 5, *self.sizes[100:]]
        equal, only_ours, only_theirs = recordings.align(recorded(*self.sizes).events, recorded(*more).events)
        self.assertGreater(equal, 0.97 * len(recorded(*self.sizes).events))
        self.assertLess(len(only_ours), 10)
        self.assertIn(f"{2 * 5}: a workspace of cuBLAS's", recordings.causes(only_theirs))

    def test_what_is_left_over_is_named_by_who_allocated_it(self):
        python = {"filename": "/venv/lib/python3.11/site-packages/torch/nn/init.py", "name": "trunc_normal_", "line": 1}
        users = {"filename": "C:\\training\\train.py", "name": "main", "line": 1}
        native = {"filename": "??", "name": "at::native::empty", "line": 0}
        cub = {"filename": "??", "name": "void at::cuda::cub::radix_sort_pairs<>()", "line": 0}
        trace = []
        for address, frames in enumerate(([native, python, users], [native, users], [cub, users], [native], [])):
            trace += [{"action": "alloc", "size": 5, "addr": address, "frames": frames},
                      {"action": "free_completed", "size": 5, "addr": address, "frames": [users]}]
        said = recordings.causes(recordings.recording_of(trace).events)
        for part in ("2: by PyTorch, trunc_normal_ in torch/nn/init.py", "2: by the program, main in C:/training/train.py",
                     "2: a temporary of CUB's", "4: not known"):
            self.assertIn(part, said)

    def test_another_program_is_not_equal(self):
        other = [size + 512 * (1 + place % 3) for place, size in enumerate(self.sizes)]
        status, _ = quietly(recordings.compare, recorded(*other), recorded(*self.sizes))
        self.assertEqual(status, 1)

    def test_a_peak_that_differs_is_not_equal(self):
        status, _ = quietly(recordings.compare, recorded(*self.sizes, 10 ** 9), recorded(*self.sizes))
        self.assertEqual(status, 1)

    def test_segments_are_what_is_reserved(self):
        trace = [{"action": "segment_alloc", "size": 2 << 20}, {"action": "segment_map", "size": 4 << 20},
                 {"action": "segment_free", "size": 2 << 20}, *trace_of(100)]
        self.assertEqual(recordings.recording_of(trace).reserved, 6 << 20)


class Reading(unittest.TestCase):
    def read(self, content):
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            return recordings.read(file.name)

    def test_a_snapshot_is_read(self):
        snapshot = {"segments": [], "device_traces": [[], trace_of(1, 2, 3)]}
        self.assertEqual(len(self.read(pickle.dumps(snapshot)).events), 4)

    def test_what_is_none_is_refused_with_its_name(self):
        for content in (b"", b"text", pickle.dumps([1]), pickle.dumps({"device_traces": [[]]}), pickle.dumps({}),
                        pickle.dumps({"device_traces": 5}), pickle.dumps({"segments": []})[:10]):
            with self.subTest(content=content), self.assertRaises(environments.Failed):
                self.read(content)

    def test_a_pickle_that_would_run_code_is_refused(self):
        class Evil:
            def __reduce__(self):
                return os.mkdir, ("/nonexistent/evil",)

        with self.assertRaisesRegex(environments.Failed, "mkdir"):
            self.read(pickle.dumps(Evil()))


if __name__ == "__main__":
    unittest.main()
