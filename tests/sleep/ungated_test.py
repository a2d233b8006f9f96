#!/usr/bin/env python3
"""A function that touches memory, and that has no gate, is found: work of a program that sleeps meets a page that is not mapped.
With its gate each of them does what it does to a program that is awake.

usage: ungated_test.py PROGRAM LIBRARY
"""
import os
import signal
import subprocess
import sys

MOST_SECONDS = 120
NOT_DONE = 1  # the software driver has answered that the address is not mapped


def main(program, library):
    environment = os.environ | {"LD_PRELOAD": library, "CUBFC_SLEEP": "true", "STANDIN_MEMORY": "512MiB"}
    functions = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()

    def run(function, **changes):
        return subprocess.run([program, function], env=environment | changes, capture_output=True, text=True, timeout=MOST_SECONDS, check=False)

    wrong = 0
    for function in functions:
        gated, ungated = run(function), run(function, CUBFC_TEST_UNGATED=function)
        if gated.returncode != 0:
            wrong += 1
            print(f"{function}, with its gate: exit status {gated.returncode}, {gated.stderr.strip()}")
        if ungated.returncode not in (NOT_DONE, -signal.SIGSEGV, -signal.SIGBUS):
            wrong += 1
            print(f"{function}, without: not found; exit status {ungated.returncode}, {ungated.stderr.strip()}")
    print(f"{len(functions)} functions that touch memory, each with its gate and without; {wrong} not as they must be")
    return 1 if wrong or len(functions) < 20 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
