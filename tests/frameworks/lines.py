"""What a report says of the lines of a training with a leak (training.py), for each of PyTorch's allocators: the leak's line in the
first screen of its text, and, where PyTorch keeps books, its own peak to the byte."""
import json
import pathlib
import subprocess
import tempfile

import environments
import running

TRAINING = pathlib.Path(__file__).resolve().parent / "training.py"
FIRST_SCREEN = 24
SECONDS = 600
# Trains, and prints the books that PyTorch keeps: the peak, and how many tensors there were.
PROGRAM = """
import runpy, sys
sys.argv = [{training!r}, "leak"]
runpy.run_path({training!r}, run_name="__main__")
import torch
books = torch.cuda.memory_stats()
print(books["allocated_bytes.all.peak"], books["allocation.all.allocated"])
"""


def leaking_line():
    lines = TRAINING.read_text(encoding="utf-8").splitlines()
    return 1 + next(number for number, line in enumerate(lines) if "kept.append(" in line)


def run(command, **more):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False,
                          **more)
    if done.returncode != 0:
        raise environments.Failed(f"{command[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def faults_of(environment, allocator):
    """What is wrong, as texts."""
    cubfc = environment.build / "cli/cubfc"
    with tempfile.TemporaryDirectory(prefix="cubfc-frameworks-") as folder:
        trace = pathlib.Path(folder, "run.cubfc")
        recorded = running.variables(environment, allocator, "grown", "24GiB") | {"CUBFC_TRACE": str(trace), "CUBFC_TRACE_STACKS": "32"}
        program = PROGRAM.format(training=str(TRAINING))
        peak, tensors = map(int, run([environment.python, "-c", program], env=recorded).split())
        first_screen = "\n".join(run([cubfc, "report", trace, "--text"]).splitlines()[:FIRST_SCREEN])
        told = json.loads(run([cubfc, "report", trace, "--format", "json", "-o", "-"]))
    faults = []
    if f"training.py:{leaking_line()} (train)" not in first_screen:
        faults.append(f"the leak's line is not in the first screen:\n{first_screen}")
    of_pytorch = [caller for caller in told["callers"] if "libc10_cuda" in caller["caller"]]
    books = (sum(caller["peak_in_use_bytes"] for caller in of_pytorch), sum(caller["allocations"] for caller in of_pytorch))
    if tensors and books != (peak, tensors):
        faults.append(f"peak and number of tensors are {books}, by PyTorch {peak, tensors}")
    faults += [f"{count} {fault}" for fault, count in told["faults"].items() if count]
    return faults


def report(environment, allocators):
    """1 if anything is wrong, else 0."""
    status = 0
    for allocator in allocators:
        for fault in faults_of(environment, allocator):
            print(f"lines of a leak, {allocator}: {fault}")
            status = 1
    if status == 0:
        print(f"lines of a leak: named with {', '.join(allocators)}; peaks and tensors are PyTorch's own")
    return status
