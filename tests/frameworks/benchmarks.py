"""What cubfc is worth to PyTorch, as far as a host can tell: kernels take no time on the software driver, so what is left of a step
is the host's work, and the calls of the driver take what was published of real ones. Ratios within one run are worth comparing."""

import collections
import json
import pathlib
import statistics
import subprocess
import tempfile

import environments
import running

TIMED = running.HERE.parent / "gpu/programs/pytorch.py"
# As scripts/demo has them: published for real drivers, not a measurement.
LATENCY = "cuMemAlloc_v2=10us,cuMemFree_v2=80us"
# Without data: a page of the host's that a set touches for the first time costs more than any call.
DRIVER = {"STANDIN_LATENCY": LATENCY, "STANDIN_DATA": "none"}
MIB = 1 << 20

Way = collections.namedtuple("Way", "name allocator mode")
WAYS = (Way("PyTorch's cache", "cache", running.BARE), Way("no cache", "none", running.BARE),
        Way("no cache, cubfc, sync", "none", "default"), Way("no cache, cubfc, deferred", "none", "deferred"))
LEAST = (running.program_of("gpt"), "gpt")  # whose least memory is looked for


def _run(environment, way, program, memory, more=None):
    variables = running.variables(environment, way.allocator, way.mode, memory) | (more or {})
    return subprocess.run([str(environment.python), *map(str, program)], env=variables, capture_output=True, text=True,
                          errors="replace", check=False, timeout=running.SECONDS)


def _must_run(environment, way, program, memory, more=None):
    done = _run(environment, way, program, memory, more)
    if done.returncode != 0:
        raise environments.Failed(f"{program[0].name} {program[1]}, {way.name}: {done.stderr.strip()[-1000:]}")
    return done.stdout


def _measured(environment, way, scenario, memory):
    """{name: value} of the program's lines "# name value unit"."""
    out = _must_run(environment, way, (TIMED, scenario), memory, DRIVER)
    words = [line.split() for line in out.splitlines() if line.startswith("# ")]
    return {word[1]: float(word[2]) for word in words}


def speeds(environment, memory, rounds, say):
    """{way: {figure: median of the rounds}}; the ways take turns, so that what else the machine does meets all of them."""
    found = {way: collections.defaultdict(list) for way in WAYS}
    for number in range(rounds):
        for way in WAYS if number % 2 == 0 else reversed(WAYS):
            say(f"round {number + 1} of {rounds}: {way.name}")
            for scenario in ("steps", "pairs"):
                for name, value in _measured(environment, way, scenario, memory).items():
                    found[way][name].append(value)
    return {way: {name: statistics.median(values) for name, values in figures.items()} for way, figures in found.items()}


def least_memory(environment, way, say):
    """The smallest device, to 2 MiB, on which the case runs to its end."""
    def runs(mib):
        return _run(environment, way, LEAST, f"{mib}MiB").returncode == 0

    say(f"least memory: {way.name}")
    enough = 64
    while not runs(enough):
        enough *= 2
        if enough > 1 << 20:
            raise environments.Failed(f"{LEAST[1]}, {way.name}: fails with 1 TiB, too")
    too_little = enough // 2
    while enough - too_little > 2:
        middle = (enough + too_little) // 2
        enough, too_little = (middle, too_little) if runs(middle) else (enough, middle)
    return enough * MIB


def forecast(environment, way, memory, say):
    """The least limit by `cubfc replay`, of a trace of the case; None where cubfc takes no part."""
    if running.MODES[way.mode] is None:
        return None
    say(f"forecast: {way.name}")
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "trace.cubfc"
        _must_run(environment, way, LEAST, memory, {"CUBFC_TRACE": str(trace)})
        free = running.MODES[way.mode].get("CUBFC_FREE", "sync")
        out = environments.run([environment.build / "cli/cubfc", "replay", trace, "--allocator", "bfc", "--free", free, "--fit",
                                "--json"])
    return json.loads(out)["results"][0]["least_limit_bytes"]


def report(options, environment, say):
    found = speeds(environment, options.memory, options.rounds, say)
    cache = found[WAYS[0]]
    sizes = [name for name in cache if name.startswith("pair_")]
    print(f"driver calls take: {LATENCY}")
    print(f"{'':<28}{'steps/s':>9}{'ratio':>8}" + "".join(f"{int(size[5:]) / MIB:>12.4g} MiB" for size in sizes))
    for way, figures in found.items():
        print(f"{way.name:<28}{figures['steps_per_second']:>9.2f}{figures['steps_per_second'] / cache['steps_per_second']:>8.2f}"
              + "".join(f"{figures[size] / 1000:>13.2f} us" for size in sizes))
    print(f"\n{'':<28}{'least memory':>14}{'forecast':>12}")
    for way in WAYS:
        told = forecast(environment, way, options.memory, say)
        least = least_memory(environment, way, say)
        print(f"{way.name:<28}{least / MIB:>10.0f} MiB{'' if told is None else f'{told / MIB:.0f} MiB':>12}", flush=True)
    return 0
