#!/usr/bin/env python3
"""What it costs that many processes start at once on one GPU: without cubfc, under it, and as members
of one group. Each allocates once and ends; the last one's end counts. The software driver shares a
device between them. Several rounds, the three in turn; the figures are the rounds' medians.

    start_together.py --library L --driver FOLDER --program P [--processes N] [--rounds N]

Prints seconds and their ratio to those without cubfc.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

MODES = {
    "bare": {},
    "cubfc": {"LD_PRELOAD": "?"},
    "cubfc, a limit each": {"LD_PRELOAD": "?", "CUBFC_MEM_LIMIT": "64MiB"},
    "cubfc, one group": {"LD_PRELOAD": "?", "CUBFC_GROUP": "starters", "CUBFC_GROUP_LIMIT": "12GiB"},
}


def seconds(arguments, settings):
    with tempfile.TemporaryDirectory() as folder:
        environment = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": os.path.realpath(arguments.driver),
                       "STANDIN_MEMORY": "16GiB", "STANDIN_SHARED": os.path.join(folder, "device"),
                       "XDG_RUNTIME_DIR": folder, **settings}
        if "LD_PRELOAD" in settings:
            environment["LD_PRELOAD"] = os.path.realpath(arguments.library)
        start = time.monotonic()
        running = [subprocess.Popen([arguments.program, "empty", "ask:1"], env=environment,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                   for _ in range(arguments.processes)]
        for process in running:
            out, said = process.communicate()
            if process.returncode != 0 or out.split()[-1:] != ["1"] or said:
                sys.exit(f"start_together: exit status {process.returncode}: {out}{said}")
        return time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("library", "driver", "program"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--processes", type=int, default=200, metavar="N")
    parser.add_argument("--rounds", type=int, default=7, metavar="N")
    arguments = parser.parse_args()
    taken = {mode: [] for mode in MODES}
    for _ in range(arguments.rounds):
        for mode, settings in MODES.items():
            taken[mode].append(seconds(arguments, settings))
    bare = statistics.median(taken["bare"])
    print(f"{arguments.processes} processes, until the last one's end")
    for mode, all_of_them in taken.items():
        middle = statistics.median(all_of_them)
        print(f"  {mode:<20} {middle:6.3f} s ({min(all_of_them):.3f} to {max(all_of_them):.3f})"
              f"  {middle / bare:5.2f} x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
