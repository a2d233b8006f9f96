"""Runs a suite on the software driver, without cubfc or under it in one of its modes."""

import json
import os
import pathlib
import subprocess

from comparing import CRASHED, SKIPPED, Result

BARE = "bare"
MODES = {
    BARE: None,
    "default": {},
    "grown": {"CUBFC_PREALLOCATE": "false"},
    "deferred": {"CUBFC_FREE": "deferred"},
    "vmm": {"CUBFC_ALLOCATOR": "vmm"},
    "cuda_async": {"CUBFC_ALLOCATOR": "cuda_async"},
    "platform": {"CUBFC_ALLOCATOR": "platform"},
    "ordered": {"CUBFC_STREAM_ORDERED": "arena"},
    "half": {"CUBFC_MEM_FRACTION": "0.5"},
}
SECONDS = 60  # that a test may take
# Not from the caller's environment: it would change what is tested.
FOREIGN = ("CUBFC_", "STANDIN_", "XLA_", "TF_", "JAX_", "CUDA_", "NUMBA_", "PYTEST_", "LD_")
WHOLE = "(the whole suite)"


def environment(installed, build, mode, devices):
    """What a run is in; `build` has the software driver and cubfc."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    suites = installed.environment()
    for name, after in (("PATH", mine.get("PATH")), ("LD_LIBRARY_PATH", None)):
        parts = [suites.pop(name, None), str(build / "tests/standin/lib") if name == "LD_LIBRARY_PATH" else None, after]
        mine[name] = os.pathsep.join(part for part in parts if part)
    # The threads of NumPy's libraries have no work here, and a process is forked from one that has them.
    mine |= suites | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONNOUSERSITE": "1",
                      "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "STANDIN_MEMORY": "4GiB",
                      "STANDIN_DEVICES": str(devices)}
    if MODES[mode] is not None:
        mine |= MODES[mode] | {"LD_PRELOAD": str(build / "shim/libcubfc.so")}
    return mine


def run_tests(installed, build, mode, tests=(), devices=1, progress=lambda: None):
    """{test: Result}. All tests when none is named."""
    worker = pathlib.Path(__file__).with_name("worker.py")
    process = subprocess.Popen(
        [str(installed.python), str(worker), str(installed.tests), str(SECONDS), installed.suite.first,
         installed.suite.each],
        env=environment(installed, build, mode, devices), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, errors="replace")
    process.stdin.write("".join(f"{test}\n" for test in tests))
    process.stdin.close()
    results = {}
    for line in process.stdout:
        test, outcome, why = json.loads(line)
        results[test] = Result(outcome, why, devices)
        progress()
    said = process.stderr.read()
    if process.wait() != 0:
        results[WHOLE] = Result(CRASHED, f"exit status {process.returncode}\n{said[-2000:]}", devices)
    return results


def run_suite(installed, build, mode, progress):
    """With one device; what is skipped there, with two."""
    results = run_tests(installed, build, mode, progress=progress)
    skipped = [test for test, result in results.items() if result.outcome == SKIPPED]
    if skipped:
        again = run_tests(installed, build, mode, skipped, 2, progress)
        results |= {test: result for test, result in again.items() if result.outcome != SKIPPED}
    return results
