"""Compares the allocations of a run on the software driver with those that PyTorch recorded on a GPU: a memory snapshot, as
torch.cuda.memory._dump_snapshot() writes it, of each."""

import collections
import io
import os
import pathlib
import pickle
import subprocess

import environments
import running

WINDOW = 4000  # events that one side may have more, at one place
RUN = 6  # events that must agree for the two to be in step again
# What a handle of cuBLAS takes in PyTorch: 32 MiB on capability 9.0, 8,519,680 bytes below (recordings of GPUs).
WORKSPACES = {33554432, 8519680}

Recording = collections.namedtuple("Recording", "events allocated reserved")


class Event(collections.namedtuple("Event", "action size")):
    """What is compared; `frames`, of the allocation, is not: versions of PyTorch call by other ways."""
    frames = ()


class PlainUnpickler(pickle.Unpickler):
    """Lists, dictionaries, texts and numbers: a snapshot has nothing else, and another pickle could run code."""

    def find_class(self, module, name):
        raise environments.Failed(f"it has a {module}.{name}, which no memory snapshot has")


def read(path):
    try:
        snapshot = PlainUnpickler(io.BytesIO(pathlib.Path(path).read_bytes())).load()
        trace = max(snapshot["device_traces"], key=len, default=[])
        recording = recording_of(trace)
    except (OSError, pickle.UnpicklingError, EOFError, KeyError, TypeError, ValueError, IndexError, AttributeError,
            ImportError, environments.Failed) as error:
        raise environments.Failed(f"{path} is no memory snapshot of PyTorch's: {error}") from None
    if not trace:
        raise environments.Failed(f"{path} has no events: was the history recorded (_record_memory_history)?")
    return recording


def recording_of(trace):
    events, peaks, now, frames_at = [], {"alloc": 0, "segment": 0}, {"alloc": 0, "segment": 0}, {}
    for event in trace:
        action, size = event["action"], event.get("size", 0)
        kind, sign = {"alloc": ("alloc", 1), "free_completed": ("alloc", -1), "segment_alloc": ("segment", 1),
                      "segment_map": ("segment", 1), "segment_free": ("segment", -1), "segment_unmap": ("segment", -1)}.get(
                          action, (None, 0))
        if kind:
            now[kind] += sign * size
            peaks[kind] = max(peaks[kind], now[kind])
        if action in ("alloc", "free_completed"):
            if action == "alloc":
                frames_at[event.get("addr")] = event.get("frames", ())
            events.append(Event(action, size))
            events[-1].frames = frames_at.get(event.get("addr"), ())
    return Recording(events, peaks["alloc"], peaks["segment"])


def align(ours, theirs):
    """(pairs that agree, only ours, only theirs): in order; after a difference the two go on where RUN events agree again
    with the fewest left out."""
    equal, only_ours, only_theirs, i, j = 0, [], [], 0, 0
    while i < len(ours) and j < len(theirs):
        if ours[i] == theirs[j]:
            equal, i, j = equal + 1, i + 1, j + 1
            continue
        step = _next_step(ours, theirs, i, j)
        if step is None:
            break
        only_ours += ours[i:step[0]]
        only_theirs += theirs[j:step[1]]
        i, j = step
    return equal, only_ours + ours[i:], only_theirs + theirs[j:]


def _next_step(ours, theirs, i, j):
    places = collections.defaultdict(list)
    for at in range(j, min(j + WINDOW, len(theirs) - RUN + 1)):
        places[tuple(theirs[at:at + RUN])].append(at)
    best = None
    for at in range(i, min(i + WINDOW, len(ours) - RUN + 1)):
        if best and at - i >= best[0] - i + best[1] - j:
            break
        for there in places.get(tuple(ours[at:at + RUN]), ())[:1]:
            if best is None or at - i + there - j < best[0] - i + best[1] - j:
                best = (at, there)
    return best


def cause(event):
    if event.size in WORKSPACES:
        return "a workspace of cuBLAS's"
    if any("cub::" in frame["name"] for frame in event.frames):
        return "a temporary of CUB's, whose size is the version's"
    python = next((frame for frame in event.frames if frame["filename"].endswith(".py")), None)
    if not python:
        return "not known"
    file = python["filename"].replace("\\", "/").rpartition("-packages/")
    # In PyTorch's own code it is one version's, not the program's.
    return f"by {'PyTorch' if file[2].startswith('torch/') else 'the program'}, {python['name']} in {file[2]}"


def causes(events):
    named = collections.Counter(map(cause, events))
    return ", ".join(f"{count}: {what}" for what, count in named.most_common()) or "none"


def compare(ours, theirs):
    equal, only_ours, only_theirs = align(ours.events, theirs.events)
    share = equal / max(len(theirs.events), 1)
    print(f"events        {len(theirs.events)} recorded, {len(ours.events)} here, {equal} equal in order and size ({share:.2%})")
    print(f"only recorded {causes(only_theirs)}")
    print(f"only here     {causes(only_ours)}")
    for name, here, there in (("peak", ours.allocated, theirs.allocated), ("reserved", ours.reserved, theirs.reserved)):
        ratio = f"{here / there:.4f}" if there else "-"
        print(f"{name:<13} {there:,} bytes above the start recorded, {here:,} here: {ratio}")
    in_step = share >= 0.95 and theirs.allocated and abs(ours.allocated / theirs.allocated - 1) <= 0.01
    return 0 if in_step else 1


def compare_run(options, environment, say):
    theirs = read(options.recording)
    before = {path: path.stat().st_mtime_ns for path in _snapshots(".")}
    variables = running.variables(environment, "cache", running.BARE, options.memory)
    # The caller's settings of the software driver and of PyTorch say which GPU and version it was.
    variables |= {name: value for name, value in os.environ.items() if name.startswith(("STANDIN_", "PYTORCH_", "TORCH_"))}
    command = list(options.command)
    if pathlib.Path(command[0]).name.startswith("python"):
        command[0] = str(environment.python)
    say("running " + " ".join(command))
    status = subprocess.run(command, env=variables, check=False).returncode
    if status != 0:
        raise environments.Failed(f"the command failed with {status}")
    dumped = options.dumped or next((path for path in sorted(_snapshots("."), key=lambda path: -path.stat().st_mtime_ns)
                                     if before.get(path) != path.stat().st_mtime_ns), None)
    if not dumped:
        raise environments.Failed("the command dumped no *.pickle or *.pkl below this folder: say with --dumped where it is")
    return compare(read(dumped), theirs)


def _snapshots(folder):
    return [path for pattern in ("*.pickle", "*.pkl") for path in pathlib.Path(folder).rglob(pattern)]
