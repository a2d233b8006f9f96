"""Writes what the fuzzers start from.

usage: make_seeds.py FOLDER

FOLDER gets a folder of files for each fuzzer: trace, rmm_log, pickle, snapshot, replay, figures.
"""
import pathlib
import struct
import subprocess
import sys

FOLDER = pathlib.Path(sys.argv[1])
ALLOCATE, FREE, RETIRE, RECLAIM, GROW, SHRINK, END_PLACE = range(1, 8)
PROGRAM, SETTINGS, DEVICE, PLACE, CALLER, THREAD, STACK, OBJECTS, OUT_OF_MEMORY, NOTE = range(0x81, 0x8B)

RMM_LOG = """Thread,Time,Action,Pointer,Size,Stream
4711,23:59:59.999999,allocate,0x7f0000000000,1000,0x0
4711,00:00:00.000001,allocate,0x7f0000001000,2000,default
4712,00:00:00.000002,free,0x7f0000000000,1000,0x0
4712,00:00:01:000002,allocate failure,(nil),5000,0x0
"""
OLD_RMM_LOG = """Event Type,Device ID,Address,Stream,Size (bytes),Free Memory,Total Memory,Current Allocs,Start,End
Alloc,1,0x7fae06600000,0,80,0,0,1,1.5,1.75
Free,1,0x7fae06600000,0,0,0,0,0,2.5,2.75
"""


class Trace:
    def __init__(self):
        self.bytes = struct.pack("<8sIIQiIQ24x", b"cubfctrc", 1, 64, 17 * 10**17, 42, 4, 0)
        self.time = 0

    def add(self, kind, place=0, address=0, size=0, thread=0, caller=0, payload=b""):
        self.time += 1000
        size = len(payload) if kind >= 0x80 else size
        self.bytes += struct.pack("<QQQIHBB", self.time << 8 | kind, address, size, 0, thread, place, caller)
        self.bytes += payload + bytes(-len(payload) % 32)


def trace():
    made = Trace()
    made.add(PROGRAM, payload=b"./app\0--size\0007")
    made.add(SETTINGS, payload=b"CUBFC_ALLOCATOR=bfc (default)\n")
    made.add(DEVICE, payload=struct.pack("<QQ16s", 1 << 34, 2**64 - 1, b"id") + b"GPU")
    made.add(PLACE, 1, payload=struct.pack("<QBB6x", 7, 0, 0))
    made.add(PLACE, 2, payload=struct.pack("<QBB6x", 0, 0, 4))
    made.add(CALLER, caller=1, payload=b"libapp.so")
    made.add(THREAD, address=4711, thread=1, payload=b"main")
    made.add(OBJECTS, payload=b"1000 2000 0 /lib/a.so\n")
    made.add(STACK, thread=1, payload=struct.pack("<QQ", 0x1010, 0x5000))
    made.add(GROW, 1, 0x1000, 1 << 21)
    made.add(ALLOCATE, 1, 0x1000, 5000, 1, 1)
    made.add(ALLOCATE, 2, 0x9000, 1 << 20, 1, 1)
    made.add(RETIRE, 1, 0x1000, 5120, 1)
    made.add(RECLAIM, 1, 0x1000, 5120)
    made.add(FREE, 2, 0x9000, 1 << 20, 1)
    made.add(OUT_OF_MEMORY, 1, 1 << 33, thread=1, payload=b"out of memory")
    made.add(END_PLACE, 1)
    for kind in (8, 9, 10, 11, 12):
        made.add(kind, size=1)
    return made.bytes


def write(fuzzer, name, contents):
    (FOLDER / fuzzer).mkdir(parents=True, exist_ok=True)
    (FOLDER / fuzzer / name).write_bytes(contents)


def main():
    made = FOLDER / "made"
    made.mkdir(parents=True, exist_ok=True)
    script = pathlib.Path(__file__).parent.parent / "make_pickles.py"
    subprocess.run([sys.executable, script, made], check=True)
    recordings = {"trace": trace(), "rmm_log": RMM_LOG.encode(), "old_rmm_log": OLD_RMM_LOG.encode()}
    for file in sorted(made.glob("*.pickle")):
        write("pickle", file.name, file.read_bytes())
    recordings["snapshot"] = (made / "snapshot.pickle").read_bytes()
    write("trace", "trace", recordings["trace"])
    write("rmm_log", "rmm_log", recordings["rmm_log"])
    write("rmm_log", "old_rmm_log", recordings["old_rmm_log"])
    write("snapshot", "snapshot", recordings["snapshot"])
    write("figures", "text", struct.pack("<HBB", 300, 0, 5) + b"\xff\x1b[2J" + struct.pack("<HBB", 20000, 0, 8) + b"\xff" * 8)
    for name, contents in recordings.items():
        for policy in (0, 1, 4, 13):
            write("replay", "%s.%d" % (name, policy), bytes([policy]) + contents)


main()
