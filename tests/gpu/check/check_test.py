"""That scripts/gpu-check sees what it is there to see, on made-up programs, without a GPU."""

import os
import sys
import threading
import time
import types
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import benchmarks  # noqa: E402
import programs  # noqa: E402
import random_programs  # noqa: E402
import report  # noqa: E402
from running import Runs  # noqa: E402


class MadeUpMachine:
    """Whose programs are shell scripts; $PRELOADED says whether cubfc would be there."""

    software = True
    scratch = "/nonexistent"

    def __init__(self, seconds=None):
        self.run = Runs(seconds).run

    def file(self, _):
        return None

    def environment(self, settings=None):
        return {"PATH": os.environ["PATH"], "PRELOADED": ""} | (settings or {})

    def preloaded(self, settings=None):
        return self.environment({"PRELOADED": "1"} | (settings or {}))


SERVED = '[ -z "$PRELOADED" ] || echo "cubfc: GPU 0: peak 1 B of 2 B, 3 allocations" >&2; '


def checked(script, served=SERVED, machine=None):
    program = programs.Program("made up", ("sh", "-c", served + script), on_software=True)
    with mock.patch.object(programs, "all_programs", lambda machine: [program]), \
         mock.patch.object(programs, "_sharing", lambda machine: []):
        part = programs.check(machine or MadeUpMachine(), lambda text, progress=False: None)
    return part["programs"][0], programs.failures(part)


class RandomPrograms(unittest.TestCase):
    def checked(self, script):
        class Machine(MadeUpMachine):
            def file(self, _):
                return "sh"

        with mock.patch.object(random_programs, "arguments", lambda *_: ["-c", script]):
            return random_programs.check(Machine(), 1)

    def test_those_that_hold_are_counted(self):
        modes = self.checked("echo '12 programs from seed 1, 80 steps, 1.0 s: no wrong byte'")
        self.assertEqual({row["programs"] for row in modes.values()}, {12})
        self.assertEqual(random_programs.failures(modes), [])

    def test_a_wrong_byte_is_seen(self):
        modes = self.checked('[ -z "$CUBFC_FREE" ] || { echo "seed 7: step 3: another byte"; exit 1; }; '
                             "echo '12 programs from seed 1, 80 steps, 1.0 s: no wrong byte'")
        failures = random_programs.failures(modes)
        self.assertEqual(len(failures), 3)
        self.assertIn("deferred, grown: exit status 1: seed 7: step 3: another byte", failures[0])

    def test_none_that_ran_is_a_failure(self):
        self.assertEqual(len(random_programs.failures(self.checked("exit 77"))), len(random_programs.MODES))
        none = self.checked("echo '0 programs from seed 1, 0 steps, 1.0 s: no wrong byte'")
        self.assertEqual(len(random_programs.failures(none)), len(random_programs.MODES))


class Programs(unittest.TestCase):
    def test_equal_results_are_equal(self):
        row, failures = checked("echo same; echo '# time '$$' s'")
        self.assertTrue(all(verdict["exactly"] for verdict in row["modes"].values()))
        self.assertEqual(failures, [])
        self.assertEqual(sorted(row["modes"]), sorted(programs.modes(MadeUpMachine())))

    def test_another_result_is_seen(self):
        _, failures = checked('echo "sum: 1$PRELOADED"')
        self.assertEqual(len(failures), 4)
        self.assertIn("without: sum: 1 | with: sum: 11", failures[0])

    def test_another_end_is_seen(self):
        _, failures = checked('echo same; [ -z "$PRELOADED" ] || kill -SEGV $$')
        self.assertEqual(len(failures), 4)
        self.assertIn("exit status 139", failures[0])

    def test_a_line_too_many_is_seen(self):
        _, failures = checked('echo same; [ -z "$PRELOADED" ] || echo more')
        self.assertIn("only with: more", failures[0])

    def test_a_program_that_cubfc_did_not_serve_is_no_success(self):
        _, failures = checked("echo same", served="")
        self.assertIn("cubfc served nothing", failures[0])

    def test_a_program_that_fails_bare_is_told(self):
        _, failures = checked("echo same; exit 3")
        self.assertEqual(len(failures), 1)
        self.assertIn("fails without cubfc, exit status 3", failures[0])

    def test_what_is_lacking_is_told_and_is_no_failure(self):
        row, failures = checked("echo lacking: a GPU; exit 77")
        self.assertEqual((row["lacking"], failures), ("a GPU", []))

    def test_results_that_change_by_themselves_are_compared_as_numbers(self):
        # The last digits of the process's number, far behind the point.
        row, failures = checked("echo mean 0.5000$$")
        self.assertFalse(row["repeatable"])
        self.assertEqual(failures, [])
        _, failures = checked('echo "mean 0.5000$$ most $((1 + 0$PRELOADED))"')
        self.assertEqual(len(failures), 4)

    def test_numbers_in_words_and_digests(self):
        same = programs.nearly_equal
        self.assertTrue(same(["a: 0123456789abcdef mean 1.00001"], ["a: fedcba9876543210 mean 1.00002"]))
        self.assertFalse(same(["a: 0123456789abcdef mean 1.0"], ["a: fedcba9876543210 mean 1.1"]))
        self.assertFalse(same(["float32 1"], ["float64 1"]))
        self.assertFalse(same(["one"], ["one", "two"]))
        self.assertTrue(same(["mean -1e-9"], ["mean 0"]))
        self.assertFalse(same(["mean nan"], ["mean 1"]))

    def test_a_program_that_does_not_end_is_ended_with_all_that_it_started(self):
        outcome = Runs().run(["sh", "-c", "echo begun; sleep 100 & sleep 100"], dict(os.environ), patience_seconds=3)
        self.assertEqual((outcome.status, outcome.out), (124, "begun\n"))

    def test_nothing_begins_after_the_deadline_and_that_is_no_success(self):
        _, failures = checked("echo same", machine=MadeUpMachine(seconds=0))
        self.assertEqual(failures, ["made up: not run, there was no time"])
        outcome = Runs(2).run(["sh", "-c", "sleep 100"], dict(os.environ))
        self.assertEqual(outcome.status, 124)

    def test_a_program_that_is_not_there_is_lacking(self):
        row, failures = checked("exec ./no-such-program", served="")
        self.assertIn("bare_failed", row)
        outcome = Runs().run(["./no-such-program"], dict(os.environ))
        self.assertIn("No such file", outcome.lacking)

    def test_all_can_be_ended(self):
        runs = Runs()

        def end_when_it_runs():
            while not runs._running:
                time.sleep(0.01)
            runs.end_all()

        threading.Thread(target=end_when_it_runs).start()
        self.assertEqual(runs.run(["sh", "-c", "sleep 100 & sleep 100"], dict(os.environ)).status, 137)
        self.assertEqual(runs.run(["true"], dict(os.environ)).lacking, "time")

    def test_a_witness_that_says_nothing_or_sees_too_much_is_no_success(self):
        clean = {"by_cubfc": 2, "past_cubfc": 0, "unknown": 0, "errors": []}
        self.assertIsNone(programs._wrong_with(clean))
        for change in ({"past_cubfc": 1}, {"unknown": 1}, {"by_cubfc": 0}, {"errors": ["none"]}):
            self.assertIsNotNone(programs._wrong_with(clean | change))
        machine = MadeUpMachine()
        machine.file = lambda path: "/nonexistent/witness.so"
        row, failures = checked("echo same", machine=machine)
        self.assertEqual(len(failures), 1)
        self.assertIn("there is no report", failures[0])

    def test_a_missing_library_is_lacking(self):
        outcome = Runs().run(
            ["sh", "-c", "echo 'app: error while loading shared libraries: libx.so.1: cannot open' >&2; exit 127"],
            dict(os.environ))
        self.assertEqual(outcome.lacking, "libx.so.1")


def made_up_part(deferred_ns, sync_ns=1000.0):
    def figures(ns):
        return {"pairs": [{"bytes": 64 << 20, "threads": 1, "ns_per_pair": ns}]}

    device = {benchmarks.BARE: figures(100_000.0), benchmarks.ASYNC: figures(2000.0),
              "bfc, deferred": figures(deferred_ns), "bfc, sync": figures(sync_ns)}
    return {"device": device, "idle": {"median": 1.0}, "pytorch_steps": {"lacking": "made up"}, "pytorch_pairs": {}}


class Benchmarks(unittest.TestCase):
    def test_bars_are_met_missed_or_not_measured(self):
        part = made_up_part(deferred_ns=10_000.0)
        part["bars"] = benchmarks.bars(part)
        met = [bar["met"] for bar in part["bars"]]
        self.assertEqual(met, [False, False, True, True, None, None, None])
        self.assertEqual(len(benchmarks.failures(part)), 2)
        self.assertIn("is 10, not at least 50", benchmarks.failures(part)[0])
        part = made_up_part(deferred_ns=100.0)
        self.assertTrue(all(bar["met"] for bar in benchmarks.bars(part)[:4]))

    def test_the_peak_is_read_from_the_line_at_exit(self):
        line = "cubfc: GPU 0: peak 1.50 GiB of 2.00 GiB, 7 allocations (2 driver calls), 0 failed\n"
        self.assertEqual(benchmarks._peak_taken_bytes(types.SimpleNamespace(err=line)), 2 << 30)
        self.assertIsNone(benchmarks._peak_taken_bytes(types.SimpleNamespace(err="")))

    def test_the_tables_have_what_was_not_measured_too(self):
        part = made_up_part(deferred_ns=100.0)
        part["device"]["bfc, sync"] = {"error": "made up"}
        part["bars"] = benchmarks.bars(part)
        part |= {"seconds": 1.0, "failures": benchmarks.failures(part)}
        for figures in part["device"].values():
            figures["growth"] = {"first_allocation": {"allocate_ns": None}, "sizes": []}
        text = report.markdown({"machine": dict.fromkeys(("gpu", "driver", "cuda", "processor", "commit", "date")),
                                "parts": {"benchmarks": part}})
        self.assertIn("| 64 MiB | 1 |", text)
        self.assertIn("not measured", text)


if __name__ == "__main__":
    unittest.main()
