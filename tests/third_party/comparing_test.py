"""That scripts/third-party-suites sees what it is there to see, on made-up results and on a made-up suite."""

import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import comparing  # noqa: E402
import installing  # noqa: E402
from comparing import CRASHED, FAILED, PASSED, SKIPPED, TIMED_OUT, Expected, Result  # noqa: E402
from suites import SUITES  # noqa: E402


def results(**outcomes):
    return {test: Result(outcome) for test, outcome in outcomes.items()}


LISTED = Expected("made-up", "b*", "needs a kernel's result")


class Lost(unittest.TestCase):
    def test_equal_results_lose_nothing(self):
        bare = results(a=PASSED, b=FAILED, c=SKIPPED)
        self.assertEqual(comparing.lost(bare, dict(bare)), {})

    def test_every_other_end_of_a_test_that_passes_is_seen(self):
        for outcome in (FAILED, SKIPPED, CRASHED, TIMED_OUT):
            lost = comparing.lost(results(a=PASSED, b=PASSED), results(a=PASSED, b=outcome))
            self.assertEqual(lost, results(b=outcome))

    def test_a_test_that_did_not_run_is_lost(self):
        self.assertEqual(list(comparing.lost(results(a=PASSED), {})), ["a"])

    def test_what_fails_without_cubfc_cannot_be_lost(self):
        self.assertEqual(comparing.lost(results(a=FAILED), results(a=CRASHED)), {})


class TheList(unittest.TestCase):
    def test_a_failure_that_is_not_listed_is_seen(self):
        for outcome in (FAILED, SKIPPED, CRASHED, TIMED_OUT):
            bare = results(a=outcome, b1=FAILED)
            self.assertEqual(list(comparing.unlisted(bare, [LISTED])), ["a"])

    def test_a_listed_test_that_passes_is_seen(self):
        self.assertEqual(comparing.stale(results(b1=FAILED, b2=PASSED), [LISTED]), [(LISTED, "b2")])

    def test_an_entry_for_no_test_is_seen(self):
        self.assertEqual(comparing.stale(results(a=PASSED), [LISTED]), [(LISTED, None)])

    def test_a_true_list_is_no_failure(self):
        bare = results(a=PASSED, b1=FAILED, b2=SKIPPED)
        self.assertEqual((comparing.unlisted(bare, [LISTED]), comparing.stale(bare, [LISTED])), ({}, []))

    def test_brackets_are_a_part_of_a_name(self):
        entry = Expected("made-up", "test[1]*", "needs NVML")
        self.assertTrue(entry.matches("test[1]x"))
        self.assertFalse(entry.matches("test1x"))

    def test_lines_that_say_too_little_are_refused(self):
        self.assertEqual(comparing.read_expected("# why\n\nmade-up b*: needs a kernel's result\n"), [LISTED])
        for line in ("made-up b*", "b*: needs NVML", "made-up b*: it is broken"):
            with self.assertRaises(ValueError):
                comparing.read_expected(line)

    def test_the_committed_list_is_well_formed(self):
        names = {suite.name for suite in SUITES}
        for entry in comparing.read_expected((HERE / "expected.txt").read_text(encoding="utf-8")):
            self.assertTrue(any(entry.concerns(name) for name in names), entry)


class Counts(unittest.TestCase):
    def test_what_crashed_or_had_no_end_has_failed(self):
        self.assertEqual(comparing.counts(results(a=PASSED, b=FAILED, c=CRASHED, d=TIMED_OUT, e=SKIPPED)), (1, 3, 1))


class Installing(unittest.TestCase):
    def test_what_pypi_does_not_give_ends_with_a_remedy(self):
        with tempfile.TemporaryDirectory() as folder:
            installed = installing.Installed(SUITES[0], pathlib.Path(folder))
            installed.python.parent.mkdir(parents=True)
            installed.python.write_text("#!/bin/sh\necho no route; exit 1\n", encoding="utf-8")
            installed.python.chmod(0o755)
            with self.assertRaises(installing.Failed) as raised:
                installing._pip(installed, "install", "x==1")
        self.assertIn("no route", str(raised.exception))
        self.assertIn("PIP_INDEX_URL", str(raised.exception))

    def test_a_python_without_wheels_is_refused(self):
        suite = SUITES[0].__class__(name="made-up", what="", wheels=(), tests="", python=((2, 6), (2, 7)))
        with tempfile.TemporaryDirectory() as folder, self.assertRaises(installing.Failed) as raised:
            installing.install(suite, pathlib.Path(folder), None, lambda text: None)
        self.assertIn("--python", str(raised.exception))


class Worker(unittest.TestCase):
    """Without pytest, which only the suites' environments have."""

    def test_a_crash_and_a_hang_take_nothing_with_them(self):
        worker = types.ModuleType("worker")
        source = (HERE / "worker.py").read_text(encoding="utf-8")
        exec(compile(source, "worker.py", "exec"), worker.__dict__)  # noqa: S102

        def child(work, seconds=20):
            return worker.in_a_child(work, seconds)

        self.assertEqual(child(lambda say: say("a", 1)), ([["a", 1]], None))
        self.assertEqual(child(lambda say: os.abort())[1][0], CRASHED)
        self.assertIn("SIGABRT", child(lambda say: os.abort())[1][1])
        self.assertIn("exit status 3", child(lambda say: os._exit(3))[1][1])
        self.assertIn("ZeroDivisionError", child(lambda say: 1 // 0)[1][1])
        said, bad = child(lambda say: (say("begun"), subprocess.run(["sleep", "100"])), 1)
        self.assertEqual((said, bad[0]), ([["begun"]], TIMED_OUT))


if __name__ == "__main__":
    unittest.main()
