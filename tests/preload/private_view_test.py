#!/usr/bin/env python3
"""The private view: under a limit of cubfc's, what a program computes from cuMemGetInfo before and
after its own allocations is what it computes alone, whatever other processes do, as long as the
device has what the limits promise. A program that measures as vLLM does and one that measures as
llama.cpp does run side by side, in every order of their steps. And who looks disturbs nobody.

    private_view_test.py LIBRARY STANDIN_FOLDER PROGRAMS_FOLDER [--all]

--all: every order in every mode; else each fourth with a plain limit, and each 13th in the others.
"""

import itertools
import json
import os
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
from step_by_step import StepByStep  # noqa: E402

LIBRARY, STANDIN, PROGRAMS = (os.path.realpath(path) for path in sys.argv[1:4])
ALL = "--all" in sys.argv

OWN = {"CUBFC_MEM_LIMIT": "8GiB"}
MODES = {
    "limit": (OWN, 4),
    "vmm": ({**OWN, "CUBFC_ALLOCATOR": "vmm"}, 13),
    "deferred": ({**OWN, "CUBFC_FREE": "deferred"}, 13),
    "platform": ({**OWN, "CUBFC_ALLOCATOR": "platform"}, 13),
    "cuda_async": ({**OWN, "CUBFC_ALLOCATOR": "cuda_async"}, 13),
    "grown": ({**OWN, "CUBFC_PREALLOCATE": "false"}, 13),
    "halves": ({"CUBFC_MEM_FRACTION": "0.5"}, 13),
    "halves, grown": ({"CUBFC_MEM_FRACTION": "0.5", "CUBFC_PREALLOCATE": "false"}, 13),
    "group": ({**OWN, "CUBFC_GROUP": "both", "CUBFC_GROUP_LIMIT": "16GiB"}, 13),
}


def start(environment, folder):
    return StepByStep(PROGRAMS, {
        "PATH": os.environ["PATH"], "LD_LIBRARY_PATH": STANDIN, "LD_PRELOAD": LIBRARY, "STANDIN_MEMORY": "16GiB",
        "STANDIN_SHARED": os.path.join(folder, "device"), "XDG_RUNTIME_DIR": folder, **environment})


def vllm(program):
    """gpu_worker's determine_available_memory: a step for each yield."""
    before, total = program.info()
    wanted = total * 9 // 10
    assert before >= wanted, "free memory on startup is less than desired"
    yield
    for _ in range(40):
        program.say("take 92")
    yield
    loaded, _ = program.info()
    yield
    program.say("take 1000")
    yield
    at_peak, _ = program.info()
    program.say("give")
    profiled, _ = program.info()
    assert before > profiled, "other processes have released memory while this one was profiling"
    assert loaded - at_peak >= 1000
    cache = wanted - (before - profiled) - 1000
    yield
    assert program.say(f"take {cache}") == "ok"
    program.info()


def llama_cpp(program):
    """llama_params_fit, then weights, cache and compute buffers."""
    free, _ = program.info()
    layers = min(33, (free - 1024) // 100)
    yield
    program.say(f"take {layers * 78}")
    yield
    program.say("take 512")
    program.say("take 300")
    free, _ = program.info()
    yield
    program.say("give")
    assert program.say(f"take {min(free - 1024, 400)}") == "ok"
    program.info()


# And how many steps each takes.
PROFILES = ((vllm, 6), (llama_cpp, 4))


def side_by_side(environment, profiles, order):
    """What each has been told, and what went wrong; `order`: whose step comes next."""
    with tempfile.TemporaryDirectory() as folder:
        programs = [start(environment, folder) for _ in profiles]
        running = [profile(program) for profile, program in zip(profiles, programs)]
        problems = []
        for turn in order:
            try:
                next(running[turn], None)
            except AssertionError as problem:
                problems.append(f"{profiles[turn].__name__}: {problem}")
        for program, profile, left in zip(programs, profiles, running):
            if next(left, "over") != "over":
                problems.append(f"{profile.__name__} has more steps")
            status, said = program.end()
            if status != 0 or said:
                problems.append(f"exit status {status}: {said}")
        return [program.told for program in programs], problems


def orders():
    places = range(sum(steps for _, steps in PROFILES))
    for second in itertools.combinations(places, PROFILES[1][1]):
        yield [1 if place in second else 0 for place in places]


def sees_death_of_member():
    """A member that is there already is told what a killed one had, as soon as it asks."""
    environment = {"CUBFC_GROUP": "both", "CUBFC_GROUP_LIMIT": "8GiB"}
    with tempfile.TemporaryDirectory() as folder:
        one, other = (start(environment, folder) for _ in range(2))
        one.say("take 100")
        other.say("take 6000")
        before, _ = one.info()
        other.process.kill()
        other.end()
        after, _ = one.info()
        answer = one.say("take 8000")
        one.end()
    print(f"group: {before} MiB free, after a member's death {after}; 8000: {answer}")
    return before <= 2192 and after >= 7950 and answer == "ok"


def looked_at(environment, looks):
    """A process that does nothing, beside one that looks so often: how many calls of the driver the
    first has made in all, what the other was told, and after an allocation of its own, and whether
    all went well."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "calls.json")
        idle = start({**environment, "STANDIN_REPORT": report}, folder)
        other = start(environment, folder)
        said = [idle.say(word) for word in ("take 3000", "take 100", "give")]
        free = {other.info()[0] for _ in range(looks)}
        said += [other.say("take 100")]
        after, _ = other.info()
        said += [idle.say("give")]
        well = said == ["ok"] * len(said) and [other.end(), idle.end()] == [(0, "")] * 2
        return sum(json.loads(pathlib.Path(report).read_text())["calls"].values()), free, after, well


def wakes_who_does_nothing(environment):
    once, _, _, went_well = looked_at(environment, 1)
    often, told, after, goes_well = looked_at(environment, 300)
    differs = len(told) != 1 or not 0 <= min(told) - after <= 102
    if differs or often > once + 60 or not (went_well and goes_well):
        return f"{once} calls of the driver, looked at more often {often}; told {told}, then {after}"
    return None


def main():
    failures, played = 0 if sees_death_of_member() else 1, 0
    for name, (environment, _) in {"no limit": ({}, 0), **MODES}.items():
        if problem := wakes_who_does_nothing(environment):
            failures += 1
            print(f"{name}: who does nothing is disturbed: {problem}")
    for name, (environment, every) in MODES.items():
        alone = []
        for profile, steps in PROFILES:
            (told,), problems = side_by_side(environment, [profile], [0] * steps)
            alone.append(told)
            if problems:
                failures += 1
                print(f"{name}, alone: {problems}\n  {told}")
        for order in list(orders())[::1 if ALL else every]:
            together, problems = side_by_side(environment, [each for each, _ in PROFILES], order)
            played += 1
            for before, now in zip(alone, together):
                problems += [f"alone {was!r}, now {answer!r}"
                             for was, answer in zip(before, now) if was != answer]
                if len(before) != len(now):
                    problems.append(f"{len(now)} questions instead of {len(before)}")
            if problems:
                failures += 1
                if failures <= 5:
                    print(f"{name}, {''.join('vl'[turn] for turn in order)}: "
                          + "; ".join(problems[:4]))
    print(f"{played} orders in {len(MODES)} modes; {failures} in which a program saw the other")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
