"""Random correct programs of tests/random, bare and under cubfc, every byte that they leave looked at. One mode after the
other: they make and destroy contexts all the time, which a device does for one process after the other."""

import re

MAPPED = {"CUBFC_ALLOCATOR": "vmm"}
DEFERRED = {"CUBFC_FREE": "deferred"}
GROWN = {"CUBFC_PREALLOCATE": "false"}
SOME = {"CUBFC_PREALLOCATE_LIMIT": "256MiB"}  # enough for all that a program has
MODES = {
    "bare": None,
    "sync, preallocated": SOME,
    "deferred, grown": DEFERRED | GROWN,
    "vmm, sync, preallocated": MAPPED | SOME,
    "vmm, deferred, grown, stream-ordered": MAPPED | DEFERRED | GROWN | {"CUBFC_STREAM_ORDERED": "arena"},
    "cuda_async, deferred": DEFERRED | {"CUBFC_ALLOCATOR": "cuda_async"},
}
FIRST_SEEDS = 1_000_000  # far apart: no two modes run the same programs
MOST_PROGRAMS = 999_999
PATIENCE_SECONDS = 60  # for one program; then it says where each of its threads is


def arguments(number, seconds):
    return ["--seed", str((number + 1) * FIRST_SEEDS), "--programs", str(MOST_PROGRAMS), "--seconds", str(seconds),
            "--patience", str(PATIENCE_SECONDS)]


def check(machine, seconds):
    """What each mode said, by its name; so many seconds of each."""
    program = machine.file("tests/random/random_programs") or "random_programs"

    found = {}
    for number, (mode, settings) in enumerate(MODES.items()):
        environment = machine.environment() if settings is None else machine.preloaded(settings)
        outcome = machine.run([program, *arguments(number, seconds)], environment, seconds + 2 * PATIENCE_SECONDS)
        found[mode] = {"status": outcome.status, "out": outcome.out[-20_000:], "err": outcome.err[-2000:],
                       "programs": _programs(outcome.out)}
    return found


def _programs(text):
    """How many ran to their end without a wrong byte; 0 if one did not."""
    found = re.search(r"^(\d+) programs from seed \d+, .*: no wrong byte$", text, re.MULTILINE)
    return int(found.group(1)) if found else 0


def failures(modes):
    return [f"{mode}: exit status {row['status']}: {(row['out'] or row['err']).strip()[:300]}"
            for mode, row in modes.items() if row["programs"] == 0]
