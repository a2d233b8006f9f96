#!/usr/bin/env python3
"""The text that each planted fault replaces stands in its source, once. The tests that plant them take minutes and do not
run with every change; one whose text has moved plants nothing."""

import importlib.util
import pathlib
import sys

sys.dont_write_bytecode = True
TESTS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(TESTS))


def faults_of(name):
    """Of tests/NAME/planted_faults.py: (what is wrong then, file, what stands there); a fault ends in these and the new text."""
    specification = importlib.util.spec_from_file_location(f"{name}_faults", TESTS / name / "planted_faults.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return [(fault[0], *fault[-3:-1]) for fault in module.FAULTS]


def main():
    lost = count = 0
    for tests, room in (("arena", "arena"), ("random", "shim"), ("flips", "shim")):
        for what, file, old in faults_of(tests):
            count += 1
            found = (TESTS.parent / room / file).read_text(encoding="utf-8").count(old)
            if found != 1:
                lost += 1
                print(f"tests/{tests}: {what}: '{old}' stands in {room}/{file} {found} times")
    print(f"{count} planted faults, {lost} whose text does not stand once in its source")
    return 1 if lost or count < 60 else 0


if __name__ == "__main__":
    sys.exit(main())
