#!/usr/bin/env python3
"""Runs a program once for each call of the driver that it makes, or that cubfc makes for it, and lets that
call fail; then once for each allocation of host memory that cubfc makes, and lets that fail. The program is
every_call.cpp, which tries once more what has failed, and then expects it to work. What is still allocated on
a device at the end has been lost; so that it can come back, nothing fails in the last of the program's
contexts."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ERRORS = {"out of memory": 2, "illegal address": 700, "unknown": 999}

# When one of these fails, the driver keeps the memory, and nobody asks it again.
GIVE_BACK = ("cuMemFree", "cuMemRelease", "cuMemUnmap", "cuMemAddressFree", "cuMemPoolDestroy",
             "cuDevicePrimaryCtxRelease", "cuStreamDestroy")
# What the program asks of it is how to word its own error.
OF_THE_TEST = ("cuGetErrorName",)

PATIENCE_S = 60


def run(command, folder, failure=""):
    """What is wrong when this failure, VARIABLE=VALUE, is planted, if one is; the software driver's report;
    how often cubfc has allocated host memory."""
    report = pathlib.Path(folder) / f"{failure}.json"
    environment = dict(os.environ, STANDIN_REPORT=str(report))
    if failure:
        variable, value = failure.split("=", 1)
        environment[variable] = value
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        return f"it does not end within {PATIENCE_S} s", {}, 0
    end = re.fullmatch(r"all done, (\d+) host allocations\n", done.stdout)
    if done.returncode != 0 or end is None:
        return f"exit status {done.returncode}: {done.stderr.strip() or done.stdout.strip()}", {}, 0
    found = json.loads(report.read_text())
    report.unlink()
    return None, found, int(end[1])


def run_with(failure, program, folder):
    """What is wrong when this failure is planted; None if nothing is."""
    wrong, report, _ = run([program], folder, failure)
    kept = failure.removeprefix("STANDIN_FAIL=").startswith(GIVE_BACK)
    lost = 0 if wrong or kept else sum(report["live_bytes"])
    return f"{lost} bytes are lost" if lost else wrong


def places(calls, most):
    """Which of so many calls are to fail, 1 being the first: the first ones, the last, and some between."""
    if calls <= most:
        return range(1, calls + 1)
    first = most // 2
    between = [first + (calls - first) * i // (most - first) for i in range(1, most - first + 1)]
    return [*range(1, first + 1), *between]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--most", type=int, default=4, metavar="N",
                           help="so many calls of each function, each in a run of its own, and "
                           "ten times as many allocations (default: 4)")
    arguments.add_argument("--errors", type=int, default=1, metavar="N",
                           help=f"with so many errors for each, of {len(ERRORS)} (default: 1, in turns)")
    arguments.add_argument("--only", default="", metavar="TEXT", help="functions whose name has this text")
    arguments.add_argument("program")
    chosen = arguments.parse_args()

    with tempfile.TemporaryDirectory(prefix="cubfc-failures-") as folder:
        wrong, report, host_allocations = run([chosen.program, "but-the-last"], folder)
        if wrong:
            sys.exit(f"without any failure: {wrong}")
        errors = list(ERRORS.values())
        failures = []
        for function, calls in sorted(report["calls"].items()):
            if chosen.only not in function or function in OF_THE_TEST:
                continue
            for place in places(calls, chosen.most):
                for i in range(chosen.errors):
                    error = errors[(len(failures) + i) % len(errors)]
                    failures.append(f"STANDIN_FAIL={function}={error}@{place}")
        if chosen.only in "host allocations":
            failures += [f"FAIL_HOST_ALLOCATION={place}" for place in places(host_allocations, 10 * chosen.most)]
        bad = 0
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
            results = workers.map(lambda failure: run_with(failure, chosen.program, folder), failures)
            for failure, wrong in zip(failures, results):
                if wrong:
                    bad += 1
                    print(f"{failure}: {wrong}", flush=True)
    print(f"{len(failures)} calls of {len(report['calls'])} functions, or allocations, failed: {bad} not as they "
          "should")
    sys.exit(1 if bad or not failures else 0)


if __name__ == "__main__":
    main()
