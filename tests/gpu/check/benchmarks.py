"""What allocation costs, in one run: the driver, its pools, PyTorch's cache and cubfc in each mode. All
that is compared are ratios; the bars that they should clear are here, too."""

import json
import os
import statistics
import sys

from programs import HERE, NO_CACHE

BARE = "driver"
ASYNC = "cudaMallocAsync"
OWN_CACHE = "its own cache"
OWN_CACHE_GROWN = "its own cache, bfc, grown"
NO_CACHE_BARE = "no cache"
NO_CACHE_DEFERRED = "no cache, bfc, deferred"
MIB = 1 << 20


def modes():
    """Of cubfc. One program at a time has the device to itself, so what is preallocated is the default."""
    found = {}
    for allocator in ("bfc", "vmm", "cuda_async"):
        for free in ("sync", "deferred"):
            found[f"{allocator}, {free}"] = {"CUBFC_ALLOCATOR": allocator, "CUBFC_FREE": free}
    return found | {"platform": {"CUBFC_ALLOCATOR": "platform"}}


def _device_bench(machine, environment, arguments):
    """What it measured, or {"error": why not}."""
    path = os.path.join(machine.scratch, "bench.json")
    outcome = machine.run([machine.file("tests/bench/device_bench") or "device_bench", *arguments, "--json", path],
                          environment)
    if outcome.lacking:
        return {"error": f"not run, there was no {outcome.lacking}"}
    if outcome.status != 0:
        return {"error": f"device_bench ended with {outcome.status}: {outcome.err[-500:]}"}
    with open(path, encoding="utf-8") as file:
        figures = json.load(file)
    if figures["cubfc_loaded"] != ("LD_PRELOAD" in environment):
        return {"error": "cubfc was not loaded" if "LD_PRELOAD" in environment else "cubfc was loaded"}
    return figures


def _stream_ordered(machine, quick):
    """Only what goes through cudaMallocAsync."""
    found = {}
    for section in ("pairs", "loop"):
        found |= _device_bench(machine, machine.environment(), [section, "--through", "async", *quick])
    return found


def _idle(machine, rounds):
    """Pairs of runs of a program that hardly allocates, without and with cubfc, either first in turn."""
    arguments = ["idle", *([] if machine.software else ["--seconds-per-point", "1"])]
    ratios = []
    for number in range(rounds):
        seconds = {}
        order = [("without", machine.environment()), ("with", machine.preloaded())]
        for name, environment in order if number % 2 == 0 else reversed(order):
            figures = _device_bench(machine, environment, arguments)
            if "error" in figures:
                return figures
            seconds[name] = figures["idle"]["seconds"]
        ratios.append(seconds["with"] / seconds["without"])
    return {"ratios": ratios, "median": statistics.median(ratios)}


def _measurements(outcome):
    """The lines "# name value unit" of a program."""
    found = {}
    for line in outcome.out.splitlines():
        words = line.split()
        if line.startswith("# ") and len(words) == 4:
            found[words[1]] = {"value": float(words[2]), "unit": words[3]}
    return found


def _peak_taken_bytes(outcome):
    """What cubfc took of the device at most, from the line it ends with: "peak A of B"."""
    units = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
    for line in outcome.err.splitlines():
        if line.startswith("cubfc: GPU 0: peak ") and " of " in line:
            number, unit = line.split(" of ")[1].split(",")[0].split()
            return float(number) * units[unit]
    return None


def _pytorch_runs(machine):
    deferred = {"CUBFC_ALLOCATOR": "bfc", "CUBFC_FREE": "deferred"}
    grown = deferred | {"CUBFC_PREALLOCATE": "false"}
    return {
        OWN_CACHE: machine.environment(),
        NO_CACHE_BARE: machine.environment(NO_CACHE),
        "no cache, bfc, sync": machine.preloaded(NO_CACHE | {"CUBFC_ALLOCATOR": "bfc", "CUBFC_FREE": "sync"}),
        NO_CACHE_DEFERRED: machine.preloaded(NO_CACHE | deferred),
        "no cache, bfc, grown": machine.preloaded(NO_CACHE | grown),
        "no cache, vmm, grown": machine.preloaded(NO_CACHE | grown | {"CUBFC_ALLOCATOR": "vmm"}),
        OWN_CACHE_GROWN: machine.preloaded(grown),
    }


def _pytorch(machine, scenario, say, only=None):
    rows = {}
    for name, environment in _pytorch_runs(machine).items():
        if only and name not in only:
            continue
        say(f"benchmarks: PyTorch, {scenario}, {name}", progress=True)
        outcome = machine.run([sys.executable, str(HERE / "pytorch.py"), scenario], environment)
        if outcome.lacking:
            return rows | {"lacking": outcome.lacking}
        rows[name] = {"status": outcome.status, "figures": _measurements(outcome),
                      "peak_taken_bytes": _peak_taken_bytes(outcome)}
        if outcome.status != 0:
            rows[name]["err"] = outcome.err[-2000:]
    return rows


def measure(machine, say, quick):
    quick = ["--quick"] if quick else []
    device = {}
    say(f"benchmarks: {BARE}", progress=True)
    everything = ["all", "--through", "malloc", *quick, *([] if quick else machine.traces)]
    device[BARE] = _device_bench(machine, machine.environment(), everything)
    device[ASYNC] = _stream_ordered(machine, quick)
    for mode, settings in modes().items():
        say(f"benchmarks: {mode}", progress=True)
        device[mode] = _device_bench(machine, machine.preloaded(settings), everything)
    part = {"device": device, "idle": _idle(machine, 3 if quick else 11)}
    if not machine.software:
        part["pytorch_steps"] = _pytorch(machine, "steps", say)
        part["pytorch_pairs"] = _pytorch(machine, "pairs", say, (OWN_CACHE, NO_CACHE_BARE, NO_CACHE_DEFERRED))
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

    def steps_per_second(name):
        row = steps.get(name)
        return row["figures"].get("steps_per_second", {}).get("value") if row else None

    bar("PyTorch without its cache under bfc, deferred: steps a second over those with its cache",
        ratio(steps_per_second(NO_CACHE_DEFERRED), steps_per_second(OWN_CACHE)), least=0.95)

    # Both as cubfc counts it, so that what PyTorch's libraries take is in both.
    def taken(name):
        row = steps.get(name)
        return row["peak_taken_bytes"] if row else None

    for mode in ("bfc", "vmm"):
        bar(f"PyTorch without its cache under {mode}, grown: memory taken over that which its cache takes",
            ratio(taken(f"no cache, {mode}, grown"), taken(OWN_CACHE_GROWN)), most=1)
    return found


def failures(part):
    lines = [f"{mode}: {figures['error']}" for mode, figures in part["device"].items() if "error" in figures]
    lines += [f"idle: {part['idle']['error']}"] if "error" in part["idle"] else []
    for scenario in ("pytorch_steps", "pytorch_pairs"):
        for name, row in part.get(scenario, {}).items():
            if name == "lacking":
                lines += [f"PyTorch, {scenario}: there was no time"] if row == "time" else []
            elif row["status"] != 0:
                lines.append(f"PyTorch, {scenario}, {name}: exit status {row['status']}")
    for bar in part["bars"] or []:
        if bar["met"] is False:
            wanted = f"at least {bar['least']}" if bar["least"] is not None else f"at most {bar['most']}"
            lines.append(f"missed: {bar['what']} is {bar['value']:.3g}, not {wanted}")
    return lines
