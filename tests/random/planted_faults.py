#!/usr/bin/env python3
"""Plants one fault after the other in the rules for what a freed block waits for, builds the library
with it, and expects the random programs to find wrong bytes. Programs that pass with a block that is given
out too early prove nothing."""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from planting import Planter, report  # noqa: E402

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


def is_caught(planter, arguments, number, folder):
    """How the programs end with the fault; nothing if they notice it."""
    _, mode, name, old, new = FAULTS[number]
    library = f"{folder}/{number}.so"
    if why_not := planter.plant(name, old, new, library):
        return why_not
    # The first is shrunk to what a person can read: one thread, and work that begins only when it is asked for. What is
    # asked for runs beside the thread all the same, so a program may go wrong in one run of some: a shorter one is tried
    # so often, and where the first that was found is one that hardly ever does, another search finds another.
    how, said = ("--one-thread --shrink --runs 8", r"shrunk from \d+ to 1?\d steps: \w+ \d+: \d+ wrong bytes") if number == 0 else (
        "--no-shrink", r"seed \d+: (\w+ \d+: \d+ wrong bytes|step \d+, \w+: CUDA_ERROR_STREAM_CAPTURE_)|it ended at seed")
    for seed in ("1", "100001", "200001"):
        ended = subprocess.run(
            [arguments.programs, "--seed", seed, "--programs", str(PROGRAMS), *how.split(), *mode.split()[1:]], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "LD_LIBRARY_PATH": arguments.driver, "LD_PRELOAD": library, "STANDIN_WORK": "asked",
                 **MODES[mode.split()[0]]})
        if ended.returncode != 0 and re.search(said, ended.stdout):
            return ""
    verdicts = re.findall(r"^(?:seed|shrunk) .*", ended.stdout, re.MULTILINE)
    return "; ".join([f"exit status {ended.returncode}", *verdicts, ended.stdout.strip()[-200:]])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    Planter.add_arguments(parser)
    parser.add_argument("--programs", required=True, help="the program random_programs")
    parser.add_argument("--driver", required=True, help="the folder of the software driver's libcuda.so.1")
    arguments = parser.parse_args()
    planter = Planter(arguments)
    chosen = [number for number, fault in enumerate(FAULTS) if arguments.only in fault[0]]
    with tempfile.TemporaryDirectory(prefix="cubfc-faults-") as folder, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return report(zip((FAULTS[number][0] for number in chosen),
                          pool.map(lambda each: is_caught(planter, arguments, each, folder), chosen)))


if __name__ == "__main__":
    sys.exit(main())
