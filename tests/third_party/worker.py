"""Runs the tests of one suite, each in a process of its own, and says how each ended, a line of JSON each.

It runs in the suite's own virtual environment and knows nothing of cubfc. A process is forked for each test from
one in which the suite's modules are loaded but which has not used CUDA, so that no test sees what another left
behind and a crash or a hang takes nothing with it.

usage: worker.py FOLDER SECONDS FIRST EACH < TESTS
  FOLDER    has the tests
  SECONDS   that a test may take
  FIRST     Python that is run once, before anything is forked
  EACH      Python that is run in each process, before it loads the tests
  TESTS     which to run, a line each; all if none is named
"""

import contextlib
import ctypes
import json
import os
import pathlib
import select
import signal
import sys
import tempfile
import traceback

with contextlib.suppress(ImportError):  # the test of this file does without
    import pytest

NOT_INITIALIZED = 3  # cuda.h: CUDA_ERROR_NOT_INITIALIZED
LONGEST_REASON = 4000
NO_WORD = ("crashed", "its process ended and left no word")


def uses_cuda():
    """Whether this process has called cuInit. A child forked from one that has cannot use CUDA."""
    device = ctypes.c_int()
    return ctypes.CDLL("libcuda.so.1").cuDeviceGet(ctypes.byref(device), 0) != NOT_INITIALIZED


def in_a_child(work, seconds):
    """What work(say) said there, each in turn, and how the child ended: None when it ended well."""
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as output:
        child = os.fork()
        if child == 0:
            _be_the_child(work, said, output)
        end = os.pidfd_open(child)
        in_time = bool(select.select([end], [], [], seconds)[0])
        os.close(end)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # and what it started
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)  # before it had a group
        status = os.waitpid(child, 0)[1]
        said.seek(0)
        lines = [json.loads(line) for line in said if line.endswith(b"\n")]
        output.seek(0)
        last = output.read().decode(errors="replace")[-LONGEST_REASON:]
    if not in_time:
        return lines, ("timed out", f"after {seconds} s\n{last}")
    if status != 0:
        code = os.waitstatus_to_exitcode(status)
        how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return lines, ("crashed", f"{how}\n{last}")
    return lines, None


def _be_the_child(work, said, output):
    status = 1
    try:
        os.setpgid(0, 0)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)

        def say(*what):
            os.write(said.fileno(), json.dumps(what).encode() + b"\n")

        work(say)
        status = 0
    except BaseException:  # whatever it is: this process must not go on as if it were its parent
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        # Not exit(): what the parent loaded may not be taken down in a child. What the driver and cubfc do at exit
        # is for tests/preload to see.
        os._exit(status)


def outcome_of(reports):
    """Of a test's setup, call and teardown: (outcome, why)."""
    for report in reports:
        if report.failed:
            return "failed", str(report.longrepr)[-LONGEST_REASON:]
    for report in reports:
        if report.skipped:
            why = report.longrepr[2] if isinstance(report.longrepr, tuple) else getattr(report, "wasxfail", "")
            return "skipped", str(why)[:LONGEST_REASON]
    return "passed", ""


class OneByOne:
    """For pytest: what is collected, and each test in a child."""

    def __init__(self, say, seconds, wanted, here):
        self._say, self._seconds, self._wanted, self._here = say, seconds, wanted, here

    def pytest_collectreport(self, report):
        if report.failed:
            self._say(report.nodeid, "failed", str(report.longrepr)[-LONGEST_REASON:])

    def pytest_collection_modifyitems(self, items):
        if self._wanted:
            items[:] = [item for item in items if item.nodeid in self._wanted]

    def pytest_runtestloop(self, session):
        for item in session.items:
            if self._here:
                self._say(item.nodeid, *self._run(item))
            elif uses_cuda():  # collecting has: each test needs a process from before
                self._say(item.nodeid, "to do", "")
            else:
                lines, bad = in_a_child(lambda say, item=item: say(*self._run(item)), self._seconds)
                self._say(item.nodeid, *(bad or (lines or [NO_WORD])[0]))
        return True

    @staticmethod
    def _run(item):
        from _pytest.runner import runtestprotocol
        return outcome_of(runtestprotocol(item, log=False, nextitem=None))


def run_pytest(target, plugin, each):
    exec(each, {})  # noqa: S102
    pytest.main([target, "-q", "--capture=no", "-p", "no:cacheprovider", "-p", "no:warnings", f"--rootdir={os.getcwd()}"],
                plugins=[plugin])


def run_file(name, wanted, seconds, each):
    """Yields (test, outcome, why). Its tests have a limit of their own each; the file's is for collecting."""
    def collect_and_run(say):
        run_pytest(name, OneByOne(say, seconds, wanted, here=False), each)

    whole = seconds * (2 + (len(wanted) or 1000))
    lines, bad = in_a_child(collect_and_run, whole)
    if bad:
        yield (name, *bad)
    for test, outcome, why in lines:
        if outcome != "to do":
            yield test, outcome, why
            continue
        one, bad = in_a_child(
            lambda say, test=test: run_pytest(test, OneByOne(say, seconds, {test}, here=True), each), seconds)
        yield (test, *(bad or (one[0][1:] if one else NO_WORD)))


def main():
    folder, seconds, first, each = sys.argv[1], float(sys.argv[2]), *sys.argv[3:]
    wanted = {line.strip() for line in sys.stdin if line.strip()}
    results = os.dup(1)
    os.chdir(folder)
    preloaded = os.environ.get("LD_PRELOAD")
    if preloaded and preloaded not in pathlib.Path("/proc/self/maps").read_text(encoding="utf-8"):
        sys.exit(f"{preloaded} is not loaded")
    with tempfile.TemporaryDirectory() as empty, open(os.devnull, "w", encoding="utf-8") as nothing, \
         contextlib.redirect_stdout(nothing):
        pytest.main([empty, "-p", "no:cacheprovider"])  # loads what pytest loads when it begins
    exec(first, {})  # noqa: S102
    if uses_cuda():
        sys.exit("CUDA is in use before the first test")
    for file in sorted(pathlib.Path().glob("test_*.py")):
        of_file = {test for test in wanted if test.split("::")[0] == file.name}
        if wanted and not of_file:
            continue
        for result in run_file(file.name, of_file, seconds, each):
            os.write(results, json.dumps(result).encode() + b"\n")


if __name__ == "__main__":  # not where a test starts a process with this module
    main()
