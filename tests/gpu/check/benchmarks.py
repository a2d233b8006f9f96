"""What allocation costs, in one run: the driver, its pools, PyTorch's cache and cubfc in each mode. All
that is compared are ratios; the bars that they should clear are here, too."""

import json
import os
import statistics
import sys

from programs import HERE, NO_CACHE, results_of
from running import run

BARE = "driver"
ASYNC = "cudaMallocAsync"
MIB = 1 << 20


def modes():
    """Of cubfc. One program at a time has the device to itself, so what is preallocated is the default."""
    found = {}
    for allocator in ("bfc", "vmm", "cuda_async"):
        for free in ("sync", "deferred"):
            found[f"{allocator}, {free}"] = {"CUBFC_ALLOCATOR": allocator, "CUBFC_FREE": free}
    return found | {"platform": {"CUBFC_ALLOCATOR": "platform"}}


def _device_bench(machine, environment, name, quick, through):
    path = os.path.join(machine.scratch, f"bench-{name}.json")
    command = [machine.file("tests/bench/device_bench"), "all", "--through", through, "--json", path]
    command += ["--quick"] if quick else []
    command += machine.traces if not quick else []
    outcome = run(command, environment)
    if outcome.status != 0:
        return {"error": f"device_bench ended with {outcome.status}: {outcome.err[-500:]}"}
    with open(path, encoding="utf-8") as file:
        figures = json.load(file)
    if figures["cubfc_loaded"] != ("LD_PRELOAD" in environment):
        return {"error": "cubfc was not loaded" if "LD_PRELOAD" in environment else "cubfc was loaded"}
    return figures


def _idle(machine, rounds):
    """Pairs of runs of a program that hardly allocates, without and with cubfc in turn."""
    path = os.path.join(machine.scratch, "idle.json")
    ratios = []
    for _ in range(rounds):
        seconds = []
        for environment in (machine.environment(), machine.preloaded()):
            outcome = run([machine.file("tests/bench/device_bench"), "idle", "--json", path], environment)
            if outcome.status != 0:
                return {"error": f"device_bench ended with {outcome.status}: {outcome.err[-500:]}"}
            with open(path, encoding="utf-8") as file:
                seconds.append(json.load(file)["idle"]["seconds"])
        ratios.append(seconds[1] / seconds[0])
    return {"ratios": ratios, "median": statistics.median(ratios)}


def _measurements(outcome):
    """The lines "# name value unit" of a program."""
    found = {}
    for line in outcome.out.splitlines():
        if line.startswith("# "):
            name, value, unit = line[2:].split()
            found[name] = {"value": float(value), "unit": unit}
    return found


def _peak_taken_bytes(outcome):
    """What cubfc took of the device at most, from the line it ends with: "peak A of B"."""
    units = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
    for line in outcome.err.splitlines():
        if line.startswith("cubfc: GPU 0: peak ") and " of " in line:
            number, unit = line.split(" of ")[1].split(",")[0].split()
            return float(number) * units[unit]
    return None


def _pytorch(machine, scenario, say):
    deferred = {"CUBFC_ALLOCATOR": "bfc", "CUBFC_FREE": "deferred"}
    grown = {"CUBFC_PREALLOCATE": "false"}
    runs = {
        "its own cache": machine.environment(),
        "no cache": machine.environment(NO_CACHE),
        "no cache, bfc, sync": machine.preloaded(NO_CACHE | {"CUBFC_FREE": "sync"}),
        "no cache, bfc, deferred": machine.preloaded(NO_CACHE | deferred),
        "no cache, bfc, deferred, grown": machine.preloaded(NO_CACHE | deferred | grown),
        "no cache, vmm, deferred, grown": machine.preloaded(NO_CACHE | deferred | grown | {"CUBFC_ALLOCATOR": "vmm"}),
        "its own cache, bfc, deferred": machine.preloaded(deferred),
    }
    rows = {}
    for name, environment in runs.items():
        say(f"benchmarks: PyTorch, {scenario}, {name}", progress=True)
        outcome = run([sys.executable, str(HERE / "pytorch.py"), scenario], environment)
        if outcome.lacking:
            return {"lacking": outcome.lacking}
        rows[name] = {"status": outcome.status, "figures": _measurements(outcome), "results": results_of(outcome),
                      "peak_taken_bytes": _peak_taken_bytes(outcome)}
        if outcome.status != 0:
            rows[name]["err"] = outcome.err[-2000:]
    return rows


def measure(machine, say, quick):
    device = {}
    for through, name in (("malloc", BARE), ("async", ASYNC)):
        say(f"benchmarks: {name}", progress=True)
        device[name] = _device_bench(machine, machine.environment(), name, quick, through)
    for mode, settings in modes().items():
        say(f"benchmarks: {mode}", progress=True)
        device[mode] = _device_bench(machine, machine.preloaded(settings), mode, quick, "malloc")
    part = {"device": device, "idle": _idle(machine, 3 if quick else 7)}
    if not machine.software:
        part["pytorch_steps"] = _pytorch(machine, "steps", say)
        part["pytorch_pairs"] = _pytorch(machine, "pairs", say)
    return part | {"bars": None if machine.software else bars(part)}


def pair_ns(part, mode, size, threads=1):
    """None where it was not measured."""
    for point in part["device"][mode].get("pairs", []):
        if point["bytes"] == size and point["threads"] == threads:
            return point["ns_per_pair"]
    return None


def ratio(one, other):
    return one / other if one and other else None


def _sizes(part):
    return sorted({point["bytes"] for point in part["device"][BARE].get("pairs", []) if point["threads"] == 1})


# Below it, the driver serves cudaMalloc from memory that it has already.
REALLY_ALLOCATES_FROM = 2 * MIB


def bars(part):
    """Each with what was measured; "met" is None where nothing was."""
    found = []

    def bar(what, value, least=None, most=None):
        met = None if value is None else (least is None or value >= least) and (most is None or value <= most)
        found.append({"what": what, "value": value, "least": least, "most": most, "met": met})

    for size in _sizes(part):
        driver = pair_ns(part, BARE, size)
        deferred = pair_ns(part, "bfc, deferred", size)
        sync = pair_ns(part, "bfc, sync", size)
        text = f"{size // 1024} KiB" if size < MIB else f"{size // MIB} MiB"
        least = 50 if size >= REALLY_ALLOCATES_FROM else 10
        bar(f"{text}: the driver's pair over that of bfc, deferred", ratio(driver, deferred), least=least)
        bar(f"{text}: cudaMallocAsync's pair over that of bfc, deferred",
            ratio(pair_ns(part, ASYNC, size), deferred), least=1)
        bar(f"{text}: the driver's pair over that of bfc, sync", ratio(driver, sync), least=5 if size == 64 * MIB else 1)
    bar("a program that hardly allocates: with cubfc over without", part["idle"].get("median"), most=1.01)

    steps = part["pytorch_steps"]

    def figure(run_name, name):
        return steps.get(run_name, {}).get("figures", {}).get(name, {}).get("value")

    own = figure("its own cache", "steps_per_second")
    bar("PyTorch without its cache under bfc, deferred: steps a second over those with its cache",
        ratio(figure("no cache, bfc, deferred", "steps_per_second"), own), least=0.95)
    for mode in ("bfc", "vmm"):
        taken = steps.get(f"no cache, {mode}, deferred, grown", {}).get("peak_taken_bytes")
        bar(f"PyTorch without its cache under {mode}, deferred, grown: memory taken over what its cache reserves",
            ratio(taken, figure("its own cache", "peak_reserved")), most=1)
    return found


def failures(part):
    lines = [f"{mode}: {figures['error']}" for mode, figures in part["device"].items() if "error" in figures]
    lines += [f"idle: {part['idle']['error']}"] if "error" in part["idle"] else []
    for scenario in ("pytorch_steps", "pytorch_pairs"):
        for name, row in part.get(scenario, {}).items():
            if name != "lacking" and row["status"] != 0:
                lines.append(f"PyTorch, {scenario}, {name}: exit status {row['status']}")
    for bar in part["bars"] or []:
        if bar["met"] is False:
            wanted = f"at least {bar['least']}" if bar["least"] is not None else f"at most {bar['most']}"
            lines.append(f"missed: {bar['what']} is {bar['value']:.3g}, not {wanted}")
    return lines
