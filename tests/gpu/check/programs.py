"""Real programs with and without cubfc, in each allocator and free mode: what they print is compared, and
that no device allocation of theirs passes cubfc by is seen from CUPTI's callbacks."""

import concurrent.futures
import dataclasses
import json
import math
import os
import pathlib
import re
import sys

from machine import LIBRARIES
from running import run

HERE = pathlib.Path(__file__).resolve().parents[1] / "programs"
AT_ONCE = 8
TOLERANCE = 1e-3  # relative; only for a program whose own results change from run to run


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    command: tuple
    settings: dict = dataclasses.field(default_factory=dict)
    fills_device: bool = False  # bare, it takes all memory there is, so nothing may run beside it
    on_software: bool = False  # the software driver can run it


def _python(name, file, *arguments, **options):
    return Program(name, (sys.executable, str(HERE / file), *arguments), **options)


def _built(machine, name, path, *arguments, **options):
    return Program(name, (machine.file(path) or path, *arguments), **options)


NO_CACHE = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


def all_programs(machine):
    programs = []
    for scenario in ("training", "inference", "streams"):
        programs.append(_python(f"PyTorch, {scenario}", "pytorch.py", scenario))
        programs.append(_python(f"PyTorch without its cache, {scenario}", "pytorch.py", scenario, settings=NO_CACHE))
    programs += [
        _python("PyTorch, torch.compile", "pytorch.py", "compiled"),
        _python("PyTorch, CUDA graphs", "pytorch.py", "graphs"),
        _python("PyTorch, out of memory", "pytorch.py", "out_of_memory", fills_device=True),
        _python("PyTorch without its cache, out of memory", "pytorch.py", "out_of_memory", settings=NO_CACHE,
                fills_device=True),
        _python("CuPy", "cupy_arrays.py", "pool"),
        _python("CuPy without its pool", "cupy_arrays.py", "no_pool"),
        _python("CuPy, CUDA's pool", "cupy_arrays.py", "async_pool"),
        _python("JAX, default", "jax_training.py", settings={"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}),
    ]
    for allocator in ("platform", "cuda_async"):
        programs.append(_python(
            f"JAX, {allocator}", "jax_training.py",
            settings={"XLA_PYTHON_CLIENT_ALLOCATOR": allocator, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}))
    programs += [
        _python("Numba", "numba_kernels.py", on_software=True),
        _python("driver bindings for Python", "driver_bindings.py", on_software=True),
    ]
    for library in LIBRARIES:
        programs.append(_built(machine, library, f"tests/gpu/programs/library_{library}"))
    for runtime in ("static", "shared"):
        programs.append(_built(machine, f"Thrust and CUB, {runtime} runtime", f"tests/gpu/programs/thrust_cub_{runtime}"))
    return programs + [
        _built(machine, "a kernel, shared runtime", "tests/programs/program_vector_add", on_software=True),
        _built(machine, "eight threads", "tests/programs/program_threads", "8", "100", on_software=True),
        _built(machine, "contexts", "tests/programs/program_contexts", on_software=True),
        _built(machine, "misuse", "tests/programs/program_misuse", on_software=True),
        _built(machine, "a made-up trace", "tests/programs/play_trace", "--synthetic", "20000", "--seed", "7",
               on_software=True),
    ]


def modes(machine):
    """Of cubfc. Several programs share the device, so none preallocates much of it."""
    some = {"CUBFC_PREALLOCATE": "true", "CUBFC_PREALLOCATE_LIMIT": "512MiB" if machine.software else "4GiB"}
    grown = {"CUBFC_PREALLOCATE": "false"}
    deferred = {"CUBFC_FREE": "deferred"}
    sync = {"CUBFC_FREE": "sync"}
    bfc = {"CUBFC_ALLOCATOR": "bfc"}  # said, because JAX's own variables are honoured, too
    vmm = {"CUBFC_ALLOCATOR": "vmm"}
    return {
        "bfc, sync": bfc | sync | some,
        "bfc, deferred": bfc | deferred | grown,
        "vmm, sync": vmm | sync | grown,
        "vmm, deferred": vmm | deferred | some,
    }


WITNESSED = "bfc, deferred"  # the mode in which CUPTI looks on


def results_of(outcome):
    """What a program computed, without what it measured."""
    lines = [line for line in outcome.out.splitlines() if not line.startswith("# ")]
    return [f"exit status {outcome.status}", *lines]


NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])")
DIGEST = re.compile(r"\b[0-9a-f]{16}\b")


def nearly_equal(one, other):
    """Line by line: the same words, and numbers that differ by little. Digests say nothing here."""
    if len(one) != len(other):
        return False
    for line, twin in zip(one, other):
        line, twin = DIGEST.sub("", line), DIGEST.sub("", twin)
        if NUMBER.sub("", line) != NUMBER.sub("", twin):
            return False
        numbers = zip(NUMBER.findall(line), NUMBER.findall(twin))
        if not all(math.isclose(float(a), float(b), rel_tol=TOLERANCE, abs_tol=TOLERANCE) for a, b in numbers):
            return False
    return True


def stats_of(outcome):
    """What cubfc said."""
    return [line for line in outcome.err.splitlines() if line.startswith("cubfc: ")]


def first_difference(bare, seen):
    for line, twin in zip(bare, seen):
        if line != twin:
            return f"without: {line} | with: {twin}"
    longer = bare if len(bare) > len(seen) else seen
    return f"{'only without' if longer is bare else 'only with'}: {longer[min(len(bare), len(seen))]}"


def _judge(program, bare_runs, runs):
    """The row of one program: its verdict in each mode."""
    row = {"name": program.name, "seconds_bare": round(bare_runs[0].seconds, 2), "modes": {}}
    if bare_runs[0].lacking:
        return row | {"lacking": bare_runs[0].lacking}
    if bare_runs[0].status != 0:
        row["bare_failed"] = f"exit status {bare_runs[0].status}: {bare_runs[0].err[-2000:]}"
    bare = results_of(bare_runs[0])
    row["repeatable"] = all(results_of(each) == bare for each in bare_runs)
    for mode, outcome in sorted(runs.items()):
        seen = results_of(outcome)
        same = seen == bare or (not row["repeatable"] and nearly_equal(bare, seen))
        stats = stats_of(outcome)
        verdict = {"equal": same, "seconds": round(outcome.seconds, 2), "stats": stats}
        if not same:
            verdict |= {"difference": first_difference(bare, seen), "err": outcome.err[-2000:]}
        elif not any("allocation" in line for line in stats):
            verdict["not_served"] = True  # the preload did nothing: that is no success
        row["modes"][mode] = verdict
    return row


class Witness:
    """What CUPTI saw of one run."""

    def __init__(self, machine, number):
        self.library = machine.file("tests/gpu/witness/libcubfc_witness.so")
        self.path = os.path.join(machine.scratch, f"witness-{number}.jsonl")

    def settings(self):
        return {"CUDA_INJECTION64_PATH": self.library, "CUBFC_TEST_WITNESS": self.path} if self.library else {}

    def seen(self):
        """Allocations by whom, over all processes of the run; None without a report."""
        try:
            with open(self.path, encoding="utf-8") as file:
                reports = [json.loads(line) for line in file]
        except OSError:
            return None
        total = {"by_cubfc": 0, "past_cubfc": 0, "unknown": 0, "stacks": [], "errors": []}
        for report in reports:
            total["errors"] += [report["error"]] if "error" in report else []
            total["stacks"] += report.get("stacks", [])[:3]
            for counts in report.get("functions", {}).values():
                for who in ("by_cubfc", "past_cubfc", "unknown"):
                    total[who] += counts[who]
        return total


def check(machine, say, only=None):
    """Runs all of them, or those whose name contains `only`."""
    programs = [each for each in all_programs(machine) if not only or only.lower() in each.name.lower()]
    left_out = [each.name for each in programs if machine.software and not each.on_software]
    programs = [each for each in programs if each.name not in left_out]
    limit = {"CUBFC_MEM_LIMIT": "1GiB" if machine.software else "4GiB"}
    bare = {each.name: [] for each in programs}
    preloaded = {each.name: {} for each in programs}
    witnesses = {each.name: Witness(machine, number) for number, each in enumerate(programs)}

    def start(pool, program, settings, keep, with_cubfc):
        environment = (machine.preloaded if with_cubfc else machine.environment)(program.settings | settings)

        def task():
            keep(run(program.command, environment))

        return pool.submit(task)

    for program in (each for each in programs if each.fills_device):
        for _ in range(2):
            bare[program.name].append(run(program.command, machine.environment(program.settings)))
    with concurrent.futures.ThreadPoolExecutor(min(AT_ONCE, os.cpu_count())) as pool:
        tasks = []
        for program in programs:
            if not program.fills_device:
                for _ in range(2):
                    tasks.append(start(pool, program, {}, bare[program.name].append, False))
        for program in programs:
            extra = limit if program.fills_device else {}
            for mode, settings in modes(machine).items():
                keep = lambda outcome, runs=preloaded[program.name], mode=mode: runs.__setitem__(mode, outcome)
                tasks.append(start(pool, program, settings | extra, keep, True))
            witness = witnesses[program.name]
            if witness.library:
                settings = modes(machine)[WITNESSED] | extra | witness.settings()
                keep = lambda outcome, runs=preloaded[program.name]: runs.__setitem__("under CUPTI", outcome)
                tasks.append(start(pool, program, settings, keep, True))
        for number, task in enumerate(concurrent.futures.as_completed(tasks)):
            task.result()
            say(f"programs: {number + 1} of {len(tasks)} runs", progress=True)
    rows = []
    for program in programs:
        row = _judge(program, bare[program.name], preloaded[program.name])
        if "lacking" not in row:
            row["witness"] = witnesses[program.name].seen()
        rows.append(row)
    return {"programs": rows, "left_out": left_out, "sharing": _sharing(machine)}


def _sharing(machine):
    """Two processes on one device, each with two fifths of it, at the same time: a row a program."""
    programs = [_built(machine, "eight threads", "tests/programs/program_threads", "8", "200")]
    if not machine.software:
        programs.append(_python("PyTorch without its cache, training", "pytorch.py", "training", settings=NO_CACHE))
    share = {"CUBFC_ALLOCATOR": "bfc", "CUBFC_MEM_FRACTION": "0.4", "CUBFC_MEM_FRACTION_OF": "total"}
    rows = []
    for program in programs:
        alone = run(program.command, machine.environment(program.settings))
        if alone.lacking:
            rows.append({"name": program.name, "lacking": alone.lacking})
            continue
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            environment = machine.preloaded(program.settings | share)
            tasks = [pool.submit(run, program.command, environment) for _ in range(2)]
            outcomes = [task.result() for task in tasks]
        bare = results_of(alone)
        rows.append({"name": program.name,
                     "equal": all(nearly_equal(bare, results_of(each)) for each in outcomes),
                     "stats": [line for each in outcomes for line in stats_of(each)]})
    return rows


def failures(part):
    """What does not hold, a line each."""
    lines = []
    for row in part["programs"]:
        if "lacking" in row:
            continue
        if "bare_failed" in row:
            lines.append(f"{row['name']}: fails without cubfc, {row['bare_failed'].splitlines()[0]}")
        for mode, verdict in row["modes"].items():
            if not verdict["equal"]:
                lines.append(f"{row['name']}, {mode}: {verdict['difference']}")
            elif "not_served" in verdict:
                lines.append(f"{row['name']}, {mode}: cubfc served nothing")
        seen = row["witness"]
        if seen and (seen["past_cubfc"] or seen["unknown"] or seen["errors"] or not seen["by_cubfc"]):
            what = "; ".join(seen["errors"]) or f"{seen['past_cubfc']} allocations past cubfc, {seen['unknown']} unknown"
            lines.append(f"{row['name']}, under CUPTI: {what}")
    return lines + [f"two processes on one device, {row['name']}: their results are not what they are alone"
                    for row in part["sharing"] if row.get("equal") is False]
