#!/usr/bin/env python3
"""Compares what this CUDA runtime exports with NVIDIA's.

usage: names_test.py OURS NVIDIAS

Prints how many of NVIDIA's functions there are, and how many are missing. Exit status: 0; 1 if a function is exported that
NVIDIA's runtime does not have.
"""
import subprocess
import sys


def functions(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[-1].partition("@")[0] for line in lines if line.split()[-2] in "TWi"}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    ours, nvidias = map(functions, sys.argv[1:])
    if not nvidias:
        sys.exit(f"names_test.py: {sys.argv[2]} has no functions")
    missing = sorted(nvidias - ours)
    print(f"{len(nvidias & ours)} of {len(nvidias)} functions, {len(missing)} missing: {' '.join(missing)}")
    unknown = sorted(ours - nvidias)
    if unknown:
        sys.exit(f"names_test.py: NVIDIA's runtime has no {', '.join(unknown)}")


if __name__ == "__main__":
    main()
