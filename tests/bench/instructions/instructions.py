#!/usr/bin/env python3
"""Counts the instructions of an allocation and its free, by callgrind: the same on a busy machine
as on an idle one. For the engine alone, for a claim on a group's budget, and for the whole path from the program's call to its
return, less what the driver takes; and what the library adds to a launch. Each figure is the difference of a longer and a shorter run, so
that starting costs nothing.

    instructions.py --engine E --group G --program P --launches N --library L --driver D [--check F | --write F]
                    [--quick] [--only TEXT] [--set NAME=VALUE]...

--check fails when a figure is more than 5% above that of the file; --write keeps the figures there.
Another compiler counts otherwise: --check is skipped (exit code 77) where the file's is another one,
or where there is no valgrind. The recorded trace is counted where CUBFC_TRACES names its folder.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

GROWTH = 1.05
SHORT, LONG = 1, 3  # passes
TRACE = "transformer_train_step_39GB"
WORKLOADS = ["ring_1", "ring_64", "training_like", "live_10000"]
QUICK = ["ring_64", "training_like"]
SKIPPED = 77


class Calls:
    """What callgrind has seen: instructions in all, and of calls from one object to another."""

    def __init__(self, file):
        self.total = 0
        self.edges = {}  # (object, object called, function called): [calls, instructions]
        names = {"ob": {}, "fn": {}}

        def name(kind, text):
            number, rest = re.match(r"\((\d+)\)(?: (.*))?", text).groups()
            if rest:
                names[kind][number] = rest
            return names[kind][number]

        here, called, calls = "", None, 0
        for line in file:
            key, _, value = line.rstrip("\n").partition("=")
            if key == "ob":
                here = name("ob", value)
            elif key == "fn":
                name("fn", value)
            elif key == "cob":
                called = name("ob", value)
            elif key == "cfn":
                function = name("fn", value)
            elif key == "calls":
                calls = int(value.split()[0])
            elif key[:1] in "0123456789+-*" and key:
                cost = int(key.split()[-1])
                if calls:
                    edge = self.edges.setdefault((here, called or here, function), [0, 0])
                    edge[0] += calls
                    edge[1] += cost
                    called, calls = None, 0
                else:
                    self.total += cost

    def between(self, caller, called):
        """(calls, instructions) where both objects fit."""
        sums = [0, 0]
        for (here, there, function), edge in self.edges.items():
            if here != there and caller(here) and called(there, function):
                sums = [sums[0] + edge[0], sums[1] + edge[1]]
        return sums


class TooLittleSpace(Exception):
    """The machine has no addresses for so large a device."""


def run(command, environment):
    """Runs it under callgrind. Returns the pairs of a pass, and what callgrind has seen."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        # Where no other process is met: to join their files costs less than to make them.
        runtime = os.path.join(folder, "runtime")
        os.mkdir(runtime, 0o700)
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *command],
            env={**environment, "XDG_RUNTIME_DIR": runtime}, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        if "STANDIN_MEMORY: mmap" in done.stderr:
            raise TooLittleSpace
        if done.returncode != 0:
            sys.exit(f"instructions.py: {' '.join(command)} has failed:\n{done.stderr}")
        with open(out, encoding="utf-8") as file:
            return int(done.stdout), Calls(file)


class Counter:
    def __init__(self, arguments):
        self.arguments = arguments
        self.environment = {key: value for key, value in os.environ.items()
                            if not key.startswith(("CUBFC_", "XLA_", "TF_"))}
        self.environment.update(setting.split("=", 1) for setting in arguments.set)

    def engine(self, workload):
        def count(contender):
            runs = [run([self.arguments.engine, contender, workload, str(passes)], self.environment)
                    for passes in (SHORT, LONG)]
            return (runs[1][1].total - runs[0][1].total) / (LONG - SHORT) / runs[0][0]
        return {"instructions": round(count("arena") - count("nothing"), 1)}

    def claim(self, what):
        def count(name):
            runs = [run([self.arguments.group, name, str(passes)], self.environment)
                    for passes in (SHORT, LONG)]
            return (runs[1][1].total - runs[0][1].total) / (LONG - SHORT) / runs[0][0]
        return {"instructions": round(count(what) - count("nothing"), 1)}

    def whole(self, api, free, device, workload):
        library = os.path.realpath(self.arguments.library)
        environment = {**self.environment, "LD_PRELOAD": library, "CUBFC_FREE": free,
                       "LD_LIBRARY_PATH": self.arguments.driver, "STANDIN_MEMORY": "56GiB",
                       "CUBFC_LOG_LEVEL": "error"}

        def is_ours(name):
            return os.path.realpath(name) == library

        def is_driver(name, _):
            return os.path.basename(name).startswith("libcud")

        def noting_long_waits(seen):
            """Of the calls that took long, which is a matter of time."""
            return sum(cost for (_, _, function), (_, cost) in seen.edges.items()
                       if function.split("'")[0].startswith("cubfc::Frees::note_long_wait("))

        sums = []
        for passes in (SHORT, LONG):
            pairs, seen = run([self.arguments.program, api, device, workload, str(passes)],
                              environment)
            into = seen.between(lambda name: not is_ours(name),
                                lambda name, function: is_ours(name) and function.split("'")[0] in
                                ("cuMemAlloc_v2", "cuMemFree_v2", "cudaMalloc", "cudaFree"))
            driver = seen.between(is_ours, is_driver)
            sums.append((into[1] - driver[1] - noting_long_waits(seen), driver[0]))
        per_pair = [(after - before) / (LONG - SHORT) / pairs
                    for before, after in zip(sums[0], sums[1])]
        return {"instructions": round(per_pair[0], 1), "driver_calls": round(per_pair[1], 2)}

    def launch(self, how, library, **settings):
        """What the library adds to a launch: of all that happens in it, without what the driver does."""
        library = os.path.realpath(library)
        environment = {**self.environment, "LD_PRELOAD": library, "LD_LIBRARY_PATH": self.arguments.driver,
                       "CUBFC_LOG_LEVEL": "error", **settings}
        sums = []
        for passes in (SHORT, LONG):
            launches, seen = run([self.arguments.launches, how, str(passes)], environment)
            into = seen.between(lambda name: os.path.realpath(name) != library,
                                lambda name, _: os.path.realpath(name) == library)
            out = seen.between(lambda name: os.path.realpath(name) == library,
                               lambda name, _: os.path.realpath(name) != library)
            sums.append(into[1] - out[1])
        return {"instructions": round((sums[1] - sums[0]) / (LONG - SHORT) / launches, 1)}

    def all(self):
        traces = os.environ.get("CUBFC_TRACES")
        workloads = {name: name for name in (QUICK if self.arguments.quick else WORKLOADS)}
        if not self.arguments.quick and traces and (pathlib.Path(traces) / f"{TRACE}.csv").exists():
            workloads[TRACE] = str(pathlib.Path(traces) / f"{TRACE}.csv")
        for name, workload in workloads.items():
            yield f"engine, {name}", lambda w=workload: self.engine(w)
        for what in ("take", "take_and_give"):
            yield f"group, {what}", lambda w=what: self.claim(w)
        sleep_library = self.arguments.library.replace("libcubfc.so", "libcubfc_sleep.so")
        for how in ("looked_up", "linked"):
            yield f"launch, {how}", lambda h=how: self.launch(h, self.arguments.library)
            yield (f"launch, {how}, can sleep",
                   lambda h=how: self.launch(h, sleep_library, CUBFC_SLEEP="true"))
        for api in ("driver", "runtime"):
            for free, device in (("sync", "idle"), ("deferred", "idle"), ("deferred", "busy")):
                for name, workload in workloads.items():
                    if api == "driver" or name == "ring_64":
                        yield (f"{api}, {free}, {device}, {name}",
                               lambda a=api, f=free, d=device, w=workload: self.whole(a, f, d, w))


def compiler_of(library):
    """As the compiler wrote it into the library."""
    text = subprocess.run(["readelf", "-p", ".comment", library], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    machine = os.uname().machine
    return machine + ", " + ", ".join(sorted(set(re.findall(r"\]  (.*)", text))))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("engine", "group", "program", "launches", "library", "driver"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--check", metavar="FILE")
    parser.add_argument("--write", metavar="FILE")
    parser.add_argument("--quick", action="store_true", help="fewer workloads")
    parser.add_argument("--only", metavar="TEXT", default="", help="figures whose name contains it")
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[],
                        help="a setting of cubfc's; may come several times")
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("valgrind is not installed")
        return SKIPPED
    compiler = compiler_of(arguments.library)
    kept = {}
    if arguments.check:
        with open(arguments.check, encoding="utf-8") as file:
            kept = json.load(file)
        if kept["compiler"] != compiler:
            print(f"the figures are those of '{kept['compiler']}', this is '{compiler}'")
            return SKIPPED
    figures, grown = {}, []
    for name, count in Counter(arguments).all():
        if arguments.only not in name:
            continue
        try:
            figures[name] = count()
        except TooLittleSpace:
            print(f"{name:52}left out: a device of 56 GiB cannot be made up here", flush=True)
            continue
        before = kept.get("figures", {}).get(name)
        line = f"{name:52}" + "".join(f"{value:9} {key}" for key, value in figures[name].items())
        if before and any(value > before[key] * GROWTH for key, value in figures[name].items()):
            grown.append(name)
            line += f"   was {before}"
        print(line, flush=True)
    if arguments.write:
        with open(arguments.write, "w", encoding="utf-8") as file:
            json.dump({"compiler": compiler, "figures": figures}, file, indent=2)
            file.write("\n")
    if grown:
        print(f"more than 5% above {arguments.check}: " + "; ".join(grown))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
