#!/usr/bin/env python3
"""docs/what-changes.md: behind each of its sentences stands a test that is there, or it is marked. The tests that stand
behind sentences of other pages are there, too.

usage: page_test.py REPOSITORY
"""
import pathlib
import re
import sys


def main():
    root = pathlib.Path(sys.argv[1])
    faults = []
    items = [line for line in (root / "docs/what-changes.md").read_text().splitlines() if line.startswith("- ")]
    for item in items:
        tests = re.findall(r'<!-- (\S+) "([^"]+)" -->', item)
        if not tests and "(not tested: " not in item:
            faults.append(f"no test stands behind: {item}")
    for page in (root / "docs").rglob("*.md"):
        for name, test in re.findall(r'<!-- (\S+) "([^"]+)" -->', page.read_text()):
            path = root / "tests" / name
            # A test's name may be broken into several strings of C++.
            text = re.sub(r'"\s*\n\s*"', "", path.read_text()) if path.exists() else ""
            if test not in text:
                faults.append(f"{name} has no '{test}', which is to stand behind a sentence of {page.name}")
    print("\n".join(faults) or f"{len(items)} sentences, each tested or marked")
    return 1 if faults or len(items) < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
