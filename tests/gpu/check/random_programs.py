"""Random correct programs of tests/random, bare and under cubfc, every byte that they leave looked at. The modes run
beside each other, each in a process of its own."""

import concurrent.futures
import re

MAPPED = {"CUBFC_ALLOCATOR": "vmm"}
DEFERRED = {"CUBFC_FREE": "deferred"}
GROWN = {"CUBFC_PREALLOCATE": "false"}
SOME = {"CUBFC_PREALLOCATE_LIMIT": "256MiB"}  # all of them are on one device
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
PATIENCE_SECONDS = 120  # for one program: contexts come and go in it, and a device makes one after the other


def arguments(number, seconds):
    return ["--seed", str((number + 1) * FIRST_SEEDS), "--programs", str(MOST_PROGRAMS), "--seconds", str(seconds),
            "--patience", str(PATIENCE_SECONDS)]


def check(machine, seconds):
    """What each mode said, by its name."""
    program = machine.file("tests/random/random_programs") or "random_programs"

    def run(number, settings):
        environment = machine.environment() if settings is None else machine.preloaded(settings)
        return machine.run([program, *arguments(number, seconds)], environment, seconds + 2 * PATIENCE_SECONDS)

    with concurrent.futures.ThreadPoolExecutor(len(MODES)) as threads:
        runs = {mode: threads.submit(run, number, settings) for number, (mode, settings) in enumerate(MODES.items())}
        outcomes = {mode: each.result() for mode, each in runs.items()}
    return {mode: {"status": outcome.status, "out": outcome.out[-20_000:], "err": outcome.err[-2000:],
                   "programs": _programs(outcome.out)} for mode, outcome in outcomes.items()}


def _programs(text):
    """How many ran to their end without a wrong byte; 0 if one did not."""
    found = re.search(r"^(\d+) programs from seed \d+, .*: no wrong byte$", text, re.MULTILINE)
    return int(found.group(1)) if found else 0


def failures(modes):
    return [f"{mode}: exit status {row['status']}: {(row['out'] or row['err']).strip()[:300]}"
            for mode, row in modes.items() if row["programs"] == 0]
