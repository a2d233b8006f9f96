"""Writes the same data as pickles of each protocol, and what it is as text.

usage: make_pickles.py FOLDER

For the tests of the reader of pickles: FOLDER gets plain.N.pickle for each protocol N, plain.txt, and some that
are laid out as PyTorch's memory snapshots are.
"""
import pickle
import sys

SHARED = ["again", 7]
PLAIN = {
    "integers": [0, 1, -1, 255, 256, -128, 65535, 65536, 2**31 - 1, 2**31, -(2**31), 2**53, 2**62,
                 2**63 - 1, -(2**63), 2**63, 2**64 - 1],
    "floats": [0.0, 1.5, -2.25e100],
    "bools": [True, False, None],
    "texts": ["", "a", "x" * 300, "\u00e9\u20ac\U0001f600", "back\\slash and\nline"],
    "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
    "nested": {"a": {"b": {"c": []}}, "many": list(range(2000))},
    "shared": [SHARED, SHARED],
}


def show(value):
    if value is None or isinstance(value, (bool, int)):
        return str(value)
    if isinstance(value, float):
        return "%.17g" % value
    if isinstance(value, str):
        return "'" + value + "'"
    if isinstance(value, dict):
        return "{" + ", ".join(show(k) + ": " + show(v) for k, v in value.items()) + "}"
    return "[" + ", ".join(show(each) for each in value) + "]"


def frame(name, line, file="model.py"):
    return {"name": name, "filename": file, "line": line}


def snapshot():
    frames = [frame("empty", 0, "??"), frame("linear", 90, "/x/site-packages/torch/nn/functional.py"),
              frame("forward", 12), frame("train", 40), {"name": "main", "filename": "??", "line": 0}]

    def entry(action, addr, size, time_us, **more):
        place = {"device_free": addr} if action == "oom" else {"addr": addr}
        return {"action": action, **place, "size": size, "stream": 0, "time_us": time_us, **more}

    base = 0x7F0000000000
    second = 1_700_000_000_000_000
    trace = [
        entry("alloc", base + 0x1000, 1000, second, frames=frames),
        entry("segment_alloc", base + 0x400000, 0x200000, second + 5),
        entry("alloc", base + 0x400000, 2000, second + 10, frames=list(frames)),
        entry("free_requested", base, 512, second + 20),
        entry("free_completed", base, 512, second + 21),
        entry("free_requested", base + 0x1000, 1000, second + 30),
        entry("snapshot", 0, 0, second + 31),
        entry("segment_free", base + 0x800000, 0x200000, second + 32),
        entry("free_completed", base + 0x1000, 1000, second + 35),
        entry("oom", 1 << 20, 1 << 30, second + 40),
    ]

    def block(size, state, requested, **more):
        return {"size": size, "requested_size": requested, "state": state, "frames": [], **more}

    segments = [
        {"device": 0, "address": base, "total_size": 0x200000, "stream": 0, "segment_type": "small",
         "blocks": [block(0x2000, "inactive", 0), block(0x200, "active_allocated", 300),
                    block(0x200, "active_awaiting_free", 512), block(0x1FDC00, "inactive", 0)]},
        {"device": 0, "address": base + 0x400000, "total_size": 0x200000, "stream": 0,
         "blocks": [block(0x800, "active_allocated", 2000, address=base + 0x400000),
                    block(0x1FF800, "inactive", 0, address=base + 0x400800)]},
    ]
    other = [entry("alloc", base, 64, second + 7)]
    return {"segments": segments, "device_traces": [trace, [], other],
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": ""}}


def labelled():
    """Streams, what PyTorch's profiler takes blocks to be, the backward pass, and a block outside of every segment."""
    base = 0x7F0000000000
    native = [frame("torch::autograd::Engine::evaluate_function(a, b)", 1234, "libtorch_cpu.so"), frame("clone", 0, "??")]
    entries = [{"action": "alloc", "addr": base + n * 0x1000, "size": 4096, "stream": stream, **more}
               for n, (stream, more) in enumerate([
                   (0, {"category": "parameter"}), (0x5566, {"category": "parameter", "frames": [frame("f", 3)]}),
                   (0x5566, {"frames": native}), (0, {"category": "temporary"}), (0, {})])]
    entries[3]["addr"] = base + 0x100000
    return {"segments": [{"device": 0, "address": base, "total_size": 0x100000, "stream": 0, "blocks": []}],
            "device_traces": [entries]}


def given(expandable, **settings):
    """In a segment of 32 MiB 3 MiB are asked for where a block of 3.5 MiB was, then where one of 4.5 MiB was. Nothing
    states what was given, because all of it is gone at the end."""
    base, mib = 0x7F0000000000, 1 << 20
    first, gap, last = base + 16 * mib, base + 41 * mib // 2, base + 24 * mib

    def entry(action, addr, size):
        return {"action": action, "addr": addr, "size": size, "stream": 0}

    entries = [entry("free_completed", gap, last - gap), entry("alloc", gap, 3 * mib),
               entry("free_completed", first, gap - first), entry("alloc", first, 3 * mib),
               entry("free_completed", gap, 3 * mib), entry("free_completed", first, 3 * mib)]
    blocks = [{"address": base, "size": 16 * mib, "requested_size": 16 * mib, "state": "active_allocated"},
              {"address": first, "size": 8 * mib, "requested_size": 0, "state": "inactive"},
              {"address": last, "size": 8 * mib, "requested_size": 8 * mib, "state": "active_allocated"}]
    return {"segments": [{"device": 0, "address": base, "total_size": 32 * mib, "stream": 0, "is_expandable": expandable,
                          "blocks": blocks}],
            "device_traces": [entries], "allocator_settings": settings}


def with_one_time(data):
    for trace in data["device_traces"]:
        for entry in trace:
            entry["time_us"] = 1_700_000_000_000_000
    return data


def main():
    folder = sys.argv[1]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with open("%s/plain.%d.pickle" % (folder, protocol), "wb") as file:
            pickle.dump(PLAIN, file, protocol)
    with open(folder + "/plain.txt", "w", encoding="utf-8") as file:
        file.write(show(PLAIN))
    snapshots = {
        "snapshot": snapshot(), "labelled": labelled(), "state": snapshot() | {"device_traces": [[], []]},
        "one_time": with_one_time(snapshot()), "given": given(False), "given_expandable": given(True),
        "given_unsplit": given(False, max_split_size=2 << 20),
    }
    for name, data in snapshots.items():
        with open("%s/%s.pickle" % (folder, name), "wb") as file:
            pickle.dump(data, file)


main()
