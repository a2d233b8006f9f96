#!/usr/bin/env python3
"""Answers of the driver that nobody has seen otherwise, turned over one at a time: whichever way a driver answers, a
program that runs on it must run under cubfc. See --help."""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from programs import BARE, MODES, Machine, programs_of, what_is_wrong  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
BEHAVIOUR = HERE.parent / "gpu/behaviour/documented.json"
EXCUSED = HERE / "excused.json"

HELP = """
For each result in the behaviour file every other plausible one in turn, for each yes or no the other, for each alignment
the next smaller and larger one: where the driver waited it does not and the other way round, where a capture survived it is
lost. Under each flip the programs that ask the driver for that answer run without cubfc and under it in its modes: CUDA's
promises, random programs, contexts, misuse, sharing between processes, threads, groups.

It is wrong when a program that ends without cubfc crashes or does not end under it, when a limit is exceeded, or when the
program sees what is neither that driver's answer nor one that it sees with and without cubfc on the driver as it is.

Exit status: 0 nothing is wrong, 1 something is, 2 wrong arguments.
"""
RESULTS = {  # of CUresult
    0: "CUDA_SUCCESS", 1: "CUDA_ERROR_INVALID_VALUE", 2: "CUDA_ERROR_OUT_OF_MEMORY", 201: "CUDA_ERROR_INVALID_CONTEXT",
    208: "CUDA_ERROR_ALREADY_MAPPED", 400: "CUDA_ERROR_INVALID_HANDLE", 500: "CUDA_ERROR_NOT_FOUND",
    709: "CUDA_ERROR_CONTEXT_IS_DESTROYED", 719: "CUDA_ERROR_LAUNCH_FAILED", 801: "CUDA_ERROR_NOT_SUPPORTED",
    900: "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"}
# Of an address that is nobody's no driver says that it is somebody's.
NOBODYS = (".never_mapped", ".garbage", ".host_pointer", ".interior")


def parse():
    parser = argparse.ArgumentParser(prog="flips.py", description=__doc__.split(": ")[0] + ".", epilog=HELP,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", metavar="FOLDER", required=True, type=pathlib.Path, help="of a build")
    parser.add_argument("--library", metavar="FILE", type=pathlib.Path, help="that is preloaded (the build's libcubfc.so)")
    parser.add_argument("--part", metavar="N", type=int, help="one flip of N, chosen by the commit: the same each time")
    parser.add_argument("--seed", default="", help="with --part: chosen by this instead")
    parser.add_argument("--only", metavar="TEXT", action="append", help="flips with TEXT in their names; may be given again")
    parser.add_argument("--programs", metavar="TEXT", default="", help="programs with TEXT in their names")
    parser.add_argument("--jobs", metavar="N", type=int, default=2 * (os.cpu_count() or 1), help="at once (%(default)s)")
    parser.add_argument("--list", action="store_true", help="print the flips, and end")
    return parser.parse_args()


def flips_of(behaviour):
    """(entry, STANDIN_ANSWERS) of each. What cannot be done ("any.no_context") no driver does. An address that was
    somebody's and one that never was are the same to it."""
    for entry, answer in behaviour["results"].items():
        freed = entry.replace(".never_mapped", ".freed")
        twin = freed if freed != entry and freed in behaviour["results"] else None
        for result in RESULTS:
            is_impossible = result == 0 and (entry.startswith("any.") or entry.endswith(NOBODYS))
            if result != answer["result"] and not is_impossible:
                yield entry, f"{twin}={result},{entry}={result}" if twin else f"{entry}={result}"
        if "capture_survives" in answer:
            fate = "lost" if answer["capture_survives"] else "survives"
            yield entry, f"{entry}={answer['result']}+{fate}"
    for entry, answer in behaviour["values"].items():
        value = answer["value"]
        if isinstance(value, bool):
            yield entry, f"{entry}={int(not value)}"
        elif isinstance(value, int) and not entry.startswith("latency."):
            yield entry, f"{entry}={value // 2}"
            yield entry, f"{entry}={value * 2}"


def name_of(flip):
    """Of the result that is answered."""
    return RESULTS.get(int(flip.rpartition("=")[2].partition("+")[0]))


def commit():
    """Of the sources; the same on every machine."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, text=True)
    return done.stdout.strip() or "no commit"


def is_chosen(flip, part, seed):
    digest = hashlib.sha256(f"{seed} {flip}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % part == 0


def say(text):
    print(text, flush=True)


def show_progress(number, all_of_them):
    if sys.stderr.isatty():
        print(f"\r    {number} of {all_of_them}\033[K", end="", file=sys.stderr, flush=True)
    elif number % 250 == 0:
        print(f"==> {number} of {all_of_them} flips", file=sys.stderr, flush=True)


class Excuses:
    """Flips under which no allocator could work, with the reason (excused.json)."""

    def __init__(self, path):
        self.all = [each | {"used": False} for each in json.loads(path.read_text(encoding="utf-8"))]

    def excuses(self, flip, program):
        for each in self.all:
            if re.fullmatch(each["flips"], flip) and each.get("program", program) == program:
                each["used"] = True
                return True
        return False

    def unused(self):
        return [each["flips"] for each in self.all if not each["used"]]


class Check:
    def __init__(self, machine, programs, pool):
        self.machine = machine
        self.programs = programs
        self.pool = pool
        self.usual = {}  # by program's name, then by mode
        self.runs = 0

    def look_at_usual(self):
        """Every program on the driver as it is, which says what each asks for."""
        jobs = {(program.name, mode): self.pool.submit(self.machine.run, program, mode)
                for program in self.programs for mode in (BARE, *MODES)}
        for (name, mode), job in jobs.items():
            self.usual.setdefault(name, {})[mode] = job.result()
        self.runs += len(jobs)

    def asking(self, entries):
        """The programs and modes that ask for one of the entries."""
        for program in self.programs:
            usual = self.usual[program.name]
            if entries & program.settled:
                continue
            by_bare = bool(entries & usual[BARE].asked)
            modes = [mode for mode in MODES if by_bare or entries & usual[mode].asked]
            if modes:
                yield program, modes, by_bare

    def start(self, flip):
        """The runs of a flip, begun: (program, mode, run without cubfc, run)."""
        begun = []
        for program, modes, by_bare in self.asking({each.partition("=")[0] for each in flip.split(",")}):
            bare = self.pool.submit(self.machine.run, program, BARE, flip) if by_bare else None
            for mode in modes:
                begun.append((program, mode, bare, self.pool.submit(self.machine.run, program, mode, flip)))
        return begun

    def verdicts(self, begun, flip, flipped):
        """What is wrong: (program, mode, why). What is no crash has to be wrong three times in a row, since what a program
        sees of time depends on what else the machine does."""
        self.runs += len(begun) + len({id(bare) for _, _, bare, _ in begun if bare})
        for program, mode, bare, run in begun:
            usual = self.usual[program.name]
            without = bare.result() if bare else usual[BARE]
            seen = run.result()
            wrong = what_is_wrong(program, mode, seen, without, usual, flipped)
            for _ in range(2):
                if wrong and not seen.end.startswith("signal"):
                    without = self.machine.run(program, BARE, flip)
                    seen = self.machine.run(program, mode, flip)
                    wrong = what_is_wrong(program, mode, seen, without, usual, flipped)
                    self.runs += 2
            if wrong:
                yield program.name, mode, wrong


def main():
    options = parse()
    behaviour = json.loads(BEHAVIOUR.read_text(encoding="utf-8"))
    flips = list(flips_of(behaviour))
    if options.only:
        flips = [flip for flip in flips if any(text in flip[1] for text in options.only)]
    if options.part:
        seed = options.seed or commit()
        flips = [flip for flip in flips if is_chosen(flip[1], options.part, seed)]
    if options.list:
        print("\n".join(flip for _, flip in flips))
        return 0
    start = time.monotonic()
    library = options.library or options.build / "shim/libcubfc.so"
    excuses = Excuses(EXCUSED)
    machine = Machine(options.build.resolve(), library.resolve())
    bad = set()
    asked = set()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        programs = [each for each in programs_of(machine.build) if options.programs in each.name]
        check = Check(machine, programs, pool)
        check.look_at_usual()
        waiting = collections.deque()
        number = 0
        for entry, flip in [*flips, (None, None)]:
            if flip:
                waiting.append((entry, flip, check.start(flip)))
            while waiting and (flip is None or sum(len(begun) for _, _, begun in waiting) > 200):
                its_entry, its_flip, begun = waiting.popleft()
                number += 1
                show_progress(number, len(flips))
                asked |= {its_entry} if begun else set()
                for name, mode, why in check.verdicts(begun, its_flip, name_of(its_flip) if its_entry in behaviour["results"] else None):
                    if not excuses.excuses(its_flip, name):
                        say(f"{its_flip}: {name}, {mode}: {why}")
                        bad.add(its_flip)
    entries = {entry for entry, _ in flips}
    say(f"{len(flips):,} flips of {len(entries)} entries, {len(asked)} of them asked for by {len(check.programs)} programs, "
        f"{check.runs:,} runs, {time.monotonic() - start:.0f} s: {len(bad)} flips under which something is wrong")
    idle = [] if options.only or options.part or options.programs else excuses.unused()
    for each in idle:
        say(f"{each}: is excused, and nothing is wrong under it")
    return 1 if bad or idle else 0


if __name__ == "__main__":
    sys.exit(main())
