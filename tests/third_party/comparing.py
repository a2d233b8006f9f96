"""What two runs of a suite have in common and what not. Knows no program and no file but the list."""

import collections
import dataclasses
import fnmatch

PASSED, FAILED, SKIPPED, CRASHED, TIMED_OUT = "passed", "failed", "skipped", "crashed", "timed out"
WITHOUT_A_WORD = "did not run"

# Why a test may fail, or be skipped, on the software driver. A reason begins with one of them.
REASONS = (
    "needs a kernel's result",
    "needs NVML",
    "needs NVIDIA's own runtime",
    "skips itself: ",
    "has nothing to do with the driver: ",
)


@dataclasses.dataclass(frozen=True)
class Result:
    outcome: str
    why: str = ""
    devices: int = 1


@dataclasses.dataclass(frozen=True)
class Expected:
    """Tests of a suite, or of several, that do not pass without cubfc."""

    suites: str  # a pattern of the shell's
    tests: str  # a pattern of the shell's, but that [ is only itself
    reason: str

    def concerns(self, suite):
        return fnmatch.fnmatchcase(suite, self.suites)

    def matches(self, test):
        return fnmatch.fnmatchcase(test, self.tests.replace("[", "[[]"))

    def __str__(self):
        return f"{self.suites} {self.tests}: {self.reason}"


def read_expected(text):
    """One line each: SUITES TESTS: REASON. Raises ValueError."""
    expected = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, separator, reason = line.partition(": ")
        words = name.split()
        if not separator or len(words) != 2:
            raise ValueError(f"line {number} is not SUITES TESTS: REASON: {line}")
        if not reason.startswith(REASONS):
            raise ValueError(f"line {number}: a reason begins with one of: {' | '.join(REASONS)}")
        expected.append(Expected(*words, reason))
    return expected


def unlisted(bare, expected):
    """The tests that do not pass, and are not expected to fail."""
    return {test: result for test, result in sorted(bare.items())
            if result.outcome != PASSED and not any(entry.matches(test) for entry in expected)}


def stale(bare, expected):
    """What the list says and is not so: (entry, test that passes, or None when the entry matches no test)."""
    wrong = []
    for entry in expected:
        matching = [test for test in sorted(bare) if entry.matches(test)]
        passing = [test for test in matching if bare[test].outcome == PASSED]
        wrong += [(entry, test) for test in passing] if matching else [(entry, None)]
    return wrong


def lost(bare, under):
    """The tests that pass without cubfc and do not with it."""
    missing = Result(WITHOUT_A_WORD)
    return {test: under.get(test, missing) for test, result in sorted(bare.items())
            if result.outcome == PASSED and under.get(test, missing).outcome != PASSED}


def counts(results):
    """passed, failed (with those that crashed or had no end), skipped."""
    of = collections.Counter(result.outcome for result in results.values())
    return of[PASSED], of[FAILED] + of[CRASHED] + of[TIMED_OUT], of[SKIPPED]
