"""What the engines' tests start: a program that knows nothing of cubfc and takes GPU memory until no more is given.

usage: taking.py MIB|all [FILE [MARK]]

Takes so many MiB, says the task's number of Slurm's (or -) and how many bytes those were, and waits until FILE is there. With MARK the second of
two tasks waits for that file first, and then takes all.
"""
import ctypes
import os
import sys
import time

PIECE = 64 << 20
PATIENCE = 100  # seconds; who starts it ends it before that


def take(most=1 << 50):
    """Bytes that were given, in pieces."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context, address, taken = ctypes.c_void_p(), ctypes.c_uint64(), 0
    if cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or cuda.cuCtxSetCurrent(context):
        raise RuntimeError("CUDA does not start")
    while taken < most and cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(PIECE)) == 0:
        taken += PIECE
    return taken


def wait_for(path):
    deadline = time.monotonic() + PATIENCE
    while not os.path.exists(path) and time.monotonic() < deadline:
        time.sleep(0.05)


def main(most, end=None, mark=None):
    task = os.environ.get("SLURM_PROCID", "-")
    if mark and task == "1":
        wait_for(mark)
        most = "all"
    print(task, take(1 << 50 if most == "all" else int(most) << 20), flush=True)
    if end:
        wait_for(end)


if __name__ == "__main__":
    main(*sys.argv[1:])
