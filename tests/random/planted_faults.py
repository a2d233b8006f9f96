#!/usr/bin/env python3
"""Plants one fault after the other in the rules for what a freed block waits for, builds the library
with it, and expects the random programs to find wrong bytes. Programs that pass with a block that is given
out too early prove nothing."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

PROGRAMS = 12000  # of which the first that goes wrong ends the run

# (what is wrong then, the mode that shows it, file, what stands there, what stands there instead)
FAULTS = [
    ("a free does not wait", "sync --no-captures", "wait/device_frees.cpp",
     "result = contexts_.synchronize(owner, *permit, others, current);", "result = CUDA_SUCCESS;"),
    ("a free does not wait once something has captured", "sync", "wait/device_frees.cpp",
     "result = fences_.wait_for(fence, &owner);", "result = CUDA_SUCCESS;"),
    ("a free waits for the block's context alone", "sync --no-captures", "device/contexts.cpp",
     "if (!context->may_use(owner.device) &&", "if (context != &owner &&"),
    ("once something has captured, a free waits for a part of the work", "sync", "wait/fences.cpp",
     "bool concerned = context->may_use(device) ||", "bool concerned = fence.marks.empty() ||"),
    ("a block that is freed while a stream captures is free at once", "sync", "serve/frees.cpp",
     "free_later(owner, address, {.in = freed.current == &owner ? nullptr : freed.current});",
     "owner.device.server->free(owner, address);"),
    ("a block that an arena is to gather is free at once", "deferred", "wait/freed_blocks.cpp",
     "result = owner.arena.gather(address, device_.preallocation.bytes());",
     "result = owner.arena.free(address) ? kYes : kNot;"),
    ("an epoch is done as soon as it is closed", "deferred", "wait/device_frees.cpp",
     "return epoch.fence.complete ? fences_.is_passed(epoch.fence, permit) : CUDA_ERROR_UNKNOWN;",
     "return epoch.fence.complete ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;"),
    ("a fence marks one context", "deferred", "wait/fences.cpp",
     "bool concerned = context->may_use(device) ||", "bool concerned = fence.marks.empty() ||"),
    ("what is freed in a stream's order does not wait", "deferred", "wait/device_frees.cpp",
     "fences_.record(fence, *order.context, order.id, order.stream);", "fence.complete = true;"),
    ("it waits for another stream", "deferred-grown", "wait/fences.cpp",
     "return driver_.cuEventRecord(event, reinterpret_cast<CUstream>(stream.handle));",
     "return driver_.cuEventRecord(event, CU_STREAM_PER_THREAD);"),
    ("a stream is served with what another freed", "deferred-ordered", "serve/stream_ordered.cpp",
     "return FreedBlocks::Order{&context, context.id.load(std::memory_order_acquire), id};",
     "return FreedBlocks::Order{&context, context.id.load(std::memory_order_acquire), {1, 0}};"),
]

MODES = {
    "sync": {"CUBFC_FREE": "sync"},
    "deferred": {"CUBFC_FREE": "deferred"},
    "deferred-grown": {"CUBFC_FREE": "deferred", "CUBFC_PREALLOCATE": "false"},
    "deferred-ordered": {"CUBFC_FREE": "deferred", "CUBFC_STREAM_ORDERED": "arena"},
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commands", required=True, help="compile_commands.json of the build")
    parser.add_argument("--compiler", default="c++", help="the C++ compiler, which links (c++)")
    parser.add_argument("--exports", required=True, help="the linker's map of what libcubfc.so exports")
    parser.add_argument("--programs", required=True, help="the program random_programs")
    parser.add_argument("--driver", required=True, help="the folder of the software driver's libcuda.so.1")
    parser.add_argument("--only", default="", help="faults whose description contains this")
    parser.add_argument("link", nargs="+", help="libcubfc.so's object files and archives")
    arguments = parser.parse_args()
    arguments.link = [os.path.normpath(word) for word in arguments.link]
    shim = pathlib.Path(__file__).resolve().parents[2] / "shim"
    commands = {entry["file"]: entry for entry in json.loads(pathlib.Path(arguments.commands).read_text())}

    def is_caught(number: int, folder: str) -> str:
        """How the programs end with the fault."""
        what, mode, name, old, new = FAULTS[number]
        original = (shim / name).read_text()
        if original.count(old) != 1:
            return f"'{old}' stands in {name} {original.count(old)} times, not once"
        source, changed = (pathlib.Path(folder) / f"{number}{end}" for end in (".cpp", ".o"))
        source.write_text(original.replace(old, new))
        entry = commands.get(str(shim / name))
        if entry is None:
            return f"{name} is not compiled by itself (SKIP_UNITY_BUILD_INCLUSION in shim/CMakeLists.txt)"
        words = shlex.split(entry["command"])
        its_object = words[words.index("-o") + 1]
        command = [str(source) if word == entry["file"] else str(changed) if word == its_object else word
                   for word in words]
        subprocess.run([*command, "-w"], check=True, cwd=entry["directory"])
        its_object = os.path.normpath(pathlib.Path(entry["directory"]) / its_object)
        if its_object not in arguments.link:
            return f"{its_object} is not among the objects"
        library = f"{folder}/{number}.so"
        subprocess.run([arguments.compiler, "-shared", "-o", library, f"-Wl,--version-script={arguments.exports}",
                        "-Wl,-Bsymbolic-functions", "-Wl,--exclude-libs,ALL",
                        *(str(changed) if word == its_object else word for word in arguments.link), "-ldl",
                        "-pthread"], check=True)
        # The first is shrunk to what a person can read. Work begins only when it is asked for, and there is one
        # thread: that a program goes wrong is no race, and one run of a shorter one tells.
        how, said = ("--one-thread --shrink --runs 1", r"shrunk from \d+ to 1?\d steps: \w+ \d+: \d+ wrong bytes") if number == 0 else (
            "--no-shrink", r"seed \d+: (\w+ \d+: \d+ wrong bytes|step \d+, \w+: CUDA_ERROR_STREAM_CAPTURE_)|it ended at seed")
        ended = subprocess.run(
            [arguments.programs, "--seed", "1", "--programs", str(PROGRAMS), *how.split(), *mode.split()[1:]], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "LD_LIBRARY_PATH": arguments.driver, "LD_PRELOAD": library, "STANDIN_WORK": "asked",
                 **MODES[mode.split()[0]]})
        if ended.returncode != 0 and re.search(said, ended.stdout):
            return ""
        verdicts = re.findall(r"^(?:seed|shrunk) .*", ended.stdout, re.MULTILINE)
        return "; ".join([f"exit status {ended.returncode}", *verdicts, ended.stdout.strip()[-200:]])

    chosen = [number for number, fault in enumerate(FAULTS) if arguments.only in fault[0]]
    missed = 0
    with tempfile.TemporaryDirectory(prefix="cubfc-faults-") as folder, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for number, why_not in zip(chosen, pool.map(lambda each: is_caught(each, folder), chosen)):
            print(f"{f'NOT CAUGHT ({why_not})' if why_not else 'caught'}: {FAULTS[number][0]}", flush=True)
            missed += bool(why_not)
    print(f"{missed} faults were not caught" if missed else "every fault was caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
