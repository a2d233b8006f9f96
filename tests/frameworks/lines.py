"""What a report says of the lines of a training with a leak (training.py), for each of PyTorch's allocators: the leak's line in the
first screen of its text, and, where PyTorch keeps books, its own peak to the byte. And what it says of PyTorch's own snapshots, of which
PyTorch keeps books, too."""
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


# Asks for sizes of all kinds, some of them before the history begins, and dumps it.
SNAPSHOT = """
import random, sys, torch
before = [torch.empty(n * 100003, dtype=torch.uint8, device="cuda") for n in range(1, 40, 5)]
torch.cuda.memory._record_memory_history(max_entries=100000)
torch.cuda.reset_peak_memory_stats()
sizes, live = random.Random(5), []
for step in range(1500):
    if sizes.random() < 0.52 or not live:
        live.append(torch.empty(int(2 ** sizes.uniform(2, 25)), dtype=torch.uint8, device="cuda"))
    else:
        live.pop(sizes.randrange(len(live)))
    if step == 700:
        del before[::2]
    if step in (500, 1000):
        torch.cuda.empty_cache()
books = torch.cuda.memory_stats()
torch.cuda.memory._dump_snapshot(sys.argv[1])
print(*(books[name] for name in ("active_bytes.all.peak", "active_bytes.all.current", "reserved_bytes.all.peak")))
"""
SETTINGS = ("", "expandable_segments:True", "roundup_power2_divisions:4", "max_split_size_mb:20")


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


def snapshot_faults_of(environment, settings):
    """Of a snapshot that PyTorch dumps with these settings of its cache."""
    with tempfile.TemporaryDirectory(prefix="cubfc-frameworks-") as folder:
        snapshot = pathlib.Path(folder, "snapshot.pickle")
        variables = running.variables(environment, "cache", "grown", "24GiB") | {"PYTORCH_CUDA_ALLOC_CONF": settings}
        books = tuple(map(int, run([environment.python, "-c", SNAPSHOT, snapshot], env=variables).split()))
        told = json.loads(run([environment.build / "cli/cubfc", "report", snapshot, "--format", "json", "-o", "-"]))
    of_report = (told["peak"]["in_use_bytes"], told["end"]["in_use_bytes"], told["peak_taken_bytes"])
    faults = [] if of_report == books else [f"in use at the peak and the end, and most taken, are {of_report}, by PyTorch {books}"]
    if not told["totals"]["before_blocks"]:
        faults.append("nothing was there before the history")
    return faults + [f"{count} {fault}" for fault, count in told["faults"].items() if count]


def report(environment, allocators):
    """1 if anything is wrong, else 0."""
    status = 0
    for allocator in allocators:
        for fault in faults_of(environment, allocator):
            print(f"lines of a leak, {allocator}: {fault}")
            status = 1
    for settings in SETTINGS:
        for fault in snapshot_faults_of(environment, settings):
            print(f"snapshot, {settings or 'no settings'}: {fault}")
            status = 1
    if status == 0:
        print(f"lines of a leak: named with {', '.join(allocators)}; peaks and tensors are PyTorch's own, and so is what its snapshots say")
    return status
