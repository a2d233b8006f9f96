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

HERE = pathlib.Path(__file__).resolve().parents[1] / "programs"
AT_ONCE = 10
# For a program whose own results change from run to run.
TOLERANCE = 1e-3  # relative
ZERO = 1e-8  # the difference between less and nothing


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    command: tuple
    settings: dict = dataclasses.field(default_factory=dict)
    fills_device: bool = False  # bare, it takes all memory there is, so nothing may run beside it
    counts_memory: bool = False  # the device's free memory: it would see who runs beside it
    on_software: bool = False  # the software driver can run it

    @property
    def is_alone(self):
        return self.fills_device or self.counts_memory


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
        _built(machine, "a kernel, shared runtime", "tests/programs/program_vector_add", counts_memory=True,
               on_software=True),
        _built(machine, "eight threads", "tests/programs/program_threads", "8", "100", on_software=True),
        _built(machine, "contexts", "tests/programs/program_contexts", on_software=True),
        _built(machine, "misuse", "tests/programs/program_misuse", on_software=True),
        _built(machine, "a made-up trace", "tests/programs/play_trace", "--synthetic", "20000", "--seed", "7",
               on_software=True),
    ]


WITNESSED = "bfc, deferred, under CUPTI"


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
        WITNESSED: bfc | deferred | grown,
        "vmm, sync": vmm | sync | grown,
        "vmm, deferred": vmm | deferred | some,
    }


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
        if not all(math.isclose(float(a), float(b), rel_tol=TOLERANCE, abs_tol=ZERO) for a, b in numbers):
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
    # Known only where it was asked: a second run is made when a mode differs.
    row["repeatable"] = all(results_of(each) == bare for each in bare_runs)
    for mode, outcome in sorted(runs.items()):
        if outcome.lacking == "time":
            row["modes"][mode] = {"not_run": "time"}
            continue
        seen = results_of(outcome)
        exactly = seen == bare
        stats = stats_of(outcome)
        verdict = {"equal": exactly or (not row["repeatable"] and nearly_equal(bare, seen)), "exactly": exactly,
                   "seconds": round(outcome.seconds, 2), "stats": stats}
        if not verdict["equal"]:
            verdict |= {"difference": first_difference(bare, seen), "err": outcome.err[-2000:]}
        elif not any("allocation" in line for line in stats):
            verdict |= {"not_served": True, "err": outcome.err[-2000:]}  # the preload did nothing: that is no success
        row["modes"][mode] = verdict
    return row


class Witness:
    """What CUPTI saw of one run; nothing where it was not built."""

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
        except (OSError, ValueError):
            return None
        total = {"by_cubfc": 0, "past_cubfc": 0, "unknown": 0, "stacks": [], "errors": []}
        for report in reports:
            total["errors"] += [report["error"]] if "error" in report else []
            total["stacks"] += report.get("stacks", [])[:3]
            for counts in report.get("functions", {}).values():
                for who in ("by_cubfc", "past_cubfc", "unknown"):
                    total[who] += counts[who]
        return total


class Check:
    """The runs of all programs: bare first, because what they lack and what they compile is known then."""

    def __init__(self, machine, programs, say):
        self.machine = machine
        self.programs = programs
        self.say = say
        self.bare = {each.name: [] for each in programs}
        self.preloaded = {each.name: {} for each in programs}
        self.witnesses = {each.name: Witness(machine, number) for number, each in enumerate(programs)}

    def _run_bare(self, program):
        environment = self.machine.environment(program.settings)
        self.bare[program.name].append(self.machine.run(program.command, environment))

    def _run_preloaded(self, program, mode, settings):
        settings = program.settings | settings
        if mode == WITNESSED:
            settings = settings | self.witnesses[program.name].settings()
        if program.fills_device:
            settings = settings | {"CUBFC_MEM_LIMIT": "1GiB" if self.machine.software else "4GiB"}
        outcome = self.machine.run(program.command, self.machine.preloaded(settings))
        self.preloaded[program.name][mode] = outcome

    def _all_at_once(self, what, tasks):
        with concurrent.futures.ThreadPoolExecutor(min(AT_ONCE, os.cpu_count())) as pool:
            futures = [pool.submit(*task) for task in tasks]
            for number, future in enumerate(concurrent.futures.as_completed(futures)):
                future.result()
                self.say(f"programs, {what}: {number + 1} of {len(tasks)}", progress=True)

    def _differs(self, program):
        bare = results_of(self.bare[program.name][0])
        return any(results_of(each) != bare for each in self.preloaded[program.name].values())

    def run(self):
        beside = [each for each in self.programs if not each.is_alone]
        alone = [each for each in self.programs if each.is_alone]
        self._all_at_once("without cubfc", [(self._run_bare, each) for each in beside])
        for program in alone:
            self._run_bare(program)
        # What fills the device without cubfc has a limit with it.
        runs = [(program, mode, settings)
                for program in self.programs if not self.bare[program.name][0].lacking
                for mode, settings in modes(self.machine).items()]
        self._all_at_once("with cubfc", [(self._run_preloaded, *each) for each in runs if not each[0].counts_memory])
        for each in runs:
            if each[0].counts_memory:
                self._run_preloaded(*each)
        self._all_at_once("without cubfc again", [(self._run_bare, each) for each in beside if self._differs(each)])

    def rows(self):
        for program in self.programs:
            row = _judge(program, self.bare[program.name], self.preloaded[program.name])
            witness = self.witnesses[program.name]
            was_run = "not_run" not in row["modes"].get(WITNESSED, {"not_run": True})
            if was_run and witness.library:
                row["witness"] = witness.seen() or {"errors": ["there is no report: the witness was not loaded, or "
                                                               "the program did not end by itself"]}
            yield row


def check(machine, say, only=None):
    """Runs all of them, or those whose name contains `only`."""
    programs = [each for each in all_programs(machine) if not only or only.lower() in each.name.lower()]
    left_out = [each.name for each in programs if machine.software and not each.on_software]
    runs = Check(machine, [each for each in programs if each.name not in left_out], say)
    runs.run()
    return {"programs": list(runs.rows()), "left_out": left_out, "sharing": _sharing(machine)}


def _sharing(machine):
    """Two processes on one device, each with two fifths of it, at the same time: a row a program."""
    programs = [_built(machine, "eight threads", "tests/programs/program_threads", "8", "200")]
    if not machine.software:
        programs.append(_python("PyTorch without its cache, training", "pytorch.py", "training", settings=NO_CACHE))
    share = {"CUBFC_ALLOCATOR": "bfc", "CUBFC_MEM_FRACTION": "0.4", "CUBFC_MEM_FRACTION_OF": "total"}
    rows = []
    for program in programs:
        alone = machine.run(program.command, machine.environment(program.settings))
        if alone.lacking:
            rows.append({"name": program.name, "lacking": alone.lacking})
            continue
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            environment = machine.preloaded(program.settings | share)
            tasks = [pool.submit(machine.run, program.command, environment) for _ in range(2)]
            outcomes = [task.result() for task in tasks]
        bare = results_of(alone)
        row = {"name": program.name, "equal": True, "stats": [line for each in outcomes for line in stats_of(each)]}
        for outcome in outcomes:
            if not nearly_equal(bare, results_of(outcome)):
                row |= {"equal": False, "difference": first_difference(bare, results_of(outcome)),
                        "err": outcome.err[-2000:]}
        rows.append(row)
    return rows


def _wrong_with(seen):
    """Of what CUPTI saw; None if nothing."""
    if seen["errors"]:
        return "; ".join(seen["errors"])
    if seen["past_cubfc"] or seen["unknown"] or not seen["by_cubfc"]:
        return f"{seen['by_cubfc']} allocations by cubfc, {seen['past_cubfc']} past it, {seen['unknown']} unknown"
    return None


def failures(part):
    """What does not hold, a line each."""
    lines = []
    for row in part["programs"]:
        if "lacking" in row:
            lines += [f"{row['name']}: not run, there was no time"] if row["lacking"] == "time" else []
            continue
        if "bare_failed" in row:
            lines.append(f"{row['name']}: fails without cubfc, {row['bare_failed'].splitlines()[0]}")
        for mode, verdict in row["modes"].items():
            if "not_run" in verdict:
                lines.append(f"{row['name']}, {mode}: not run, there was no {verdict['not_run']}")
            elif not verdict["equal"]:
                lines.append(f"{row['name']}, {mode}: {verdict['difference']}")
            elif "not_served" in verdict:
                lines.append(f"{row['name']}, {mode}: cubfc served nothing")
        if "witness" in row and (what := _wrong_with(row["witness"])):
            lines.append(f"{row['name']}, under CUPTI: {what}")
    return lines + [f"two processes on one device, {row['name']}: {row['difference']}"
                    for row in part["sharing"] if row.get("equal") is False]
