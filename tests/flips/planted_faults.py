#!/usr/bin/env python3
"""Plants one fault after the other, each a way to count on one answer of the driver's, and expects the flips of that answer
to find it. Flips under which everything passes prove nothing."""

import argparse
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from planting import Planter, report  # noqa: E402

# (what is wrong then, the flip, the program that shows it, file, what stands there, what stands there instead)
FAULTS = [
    ("a region that is open is opened again only where the driver says so in one word", "cuIpcOpenMemHandle.already_open=2",
     "sharing", "share/ipc.cpp", "  if (stays(result)) {\n", "  if (result != CUDA_ERROR_ALREADY_MAPPED) {\n"),
    ("memory that a pool has not got back counts as gone", "any.destroyed_context=1", "the_last_release",
     "servers/own_pool.cpp", "return {result, result == CUDA_SUCCESS};\n  }",
     "return {result, result == CUDA_SUCCESS};\n  }\n  if (result == CUDA_ERROR_INVALID_VALUE) {\n    return {result, true};\n  }"),
    ("a pool's memory goes back by cuMemFree or not at all", "cuMemFree.async_pointer=801", "freed_memory",
     "servers/own_pool.cpp", "if (stream == nullptr ||", "if (stream == nullptr || stream != nullptr ||"),
    ("a driver that needs no output of a query is answered for", "cuPointerGetAttribute.null_output=0", "needs_an_output",
     "ask/pointer_queries.cpp", "seen.is_block && value != nullptr", "seen.is_block"),
    ("nor of a query of several", "cuPointerGetAttributes.null_output=0", "needs_an_output", "ask/pointer_queries.cpp",
     "if (result != CUDA_SUCCESS || attributes == nullptr || values == nullptr) {", "if (result != CUDA_SUCCESS) {"),
    ("without a figure of what is free there is no arena", "capture.relaxed.cuMemGetInfo.same_thread=801", "capture",
     "device/contexts.cpp", "    start(*context);\n",
     "    std::size_t free_bytes = 0;\n    const RelaxedCapture relaxed(driver_);\n"
     "    if (driver_.cuMemGetInfo_v2(&free_bytes, &free_bytes) != CUDA_SUCCESS) {\n      return nullptr;\n    }\n"
     "    start(*context);\n"),
    ("what refuses a free is known by its number", "cuMemFree.interior=400", "without_a_context", "serve/frees.cpp",
     "driver_.cuMemFree_v2(none) == result ? CUDA_SUCCESS : result;", "false ? CUDA_SUCCESS : result;"),
    ("a region goes back in a stream's order or not at all", "cuMemFreeAsync.plain_pointer=801", "promise",
     "servers/region_memory.cpp", "      result = driver_.cuMemFree_v2(base);\n", ""),
    ("a region that is open is not used again", "cuIpcOpenMemHandle.already_open=208", "sharing", "share/ipc.cpp",
     "  if (open == regions_.end()) {\n    return result;", "  if (result != CUDA_SUCCESS) {\n    return result;"),
    ("a block's handle is asked for at its own address", "ipc.handle_of_interior_equals_base=0", "sharing", "share/ipc.cpp",
     "driver_.cuIpcGetMemHandle(&of_region, region)", "driver_.cuIpcGetMemHandle(&of_region, address)"),
    ("a copy that a device cannot make is known by its error", "cuMemcpy.no_peer_access=801", "two devices", "hook/copy.cpp",
     "  return result == CUDA_SUCCESS || shape == nullptr\n", "  return result != CUDA_ERROR_INVALID_VALUE || shape == nullptr\n"),
    ("so is one of a row", "cuMemcpy.no_peer_access=400", "two devices", "hook/copy.cpp",
     "  return result == CUDA_SUCCESS\n", "  return result != CUDA_ERROR_INVALID_VALUE\n"),
]


def is_caught(planter, arguments, number, folder):
    """Why the flip finds nothing, or nothing. Without the fault it must find nothing."""
    _, flip, program, name, old, new = FAULTS[number]
    library = f"{folder}/{number}.so"
    if why_not := planter.plant(name, old, new, library):
        return why_not
    command = [sys.executable, str(pathlib.Path(__file__).with_name("flips.py")), "--build", arguments.build, "--only", flip,
               "--programs", program]
    for preloaded, expected in ((None, 0), (library, 1)):
        ended = subprocess.run([*command, *(["--library", preloaded] if preloaded else [])], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if ended.returncode != expected:
            return f"{'with' if preloaded else 'without'} the fault: exit status {ended.returncode}: {ended.stdout[-300:].strip()}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    Planter.add_arguments(parser)
    parser.add_argument("--build", required=True, help="the folder of the build")
    arguments = parser.parse_args()
    planter = Planter(arguments)
    chosen = [number for number, fault in enumerate(FAULTS) if arguments.only in fault[0]]
    with tempfile.TemporaryDirectory(prefix="cubfc-faults-") as folder:
        return report((FAULTS[number][0], is_caught(planter, arguments, number, folder)) for number in chosen)


if __name__ == "__main__":
    sys.exit(main())
