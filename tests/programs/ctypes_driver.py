#!/usr/bin/env python3
"""Python's way to the driver: ctypes, that is dlopen and dlsym. Prints what it saw; exit 1 on an error."""

import ctypes
import sys


def main() -> int:
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        print(f"no CUDA driver: {error}", file=sys.stderr)
        return 77

    failures = 0

    def call(name, *arguments):
        nonlocal failures
        result = getattr(cuda, name)(*arguments)
        print(f"{name}: {result}")
        failures += result != 0
        return result

    device = ctypes.c_int()
    context = ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)

    for size in (1, 1000, 1 << 20, (3 << 20) + 7):
        block = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(block), ctypes.c_size_t(size))
        written = bytes((i * 7 + size) % 251 for i in range(size))
        read = ctypes.create_string_buffer(size)
        call("cuMemcpyHtoD_v2", block, written, ctypes.c_size_t(size))
        call("cuMemcpyDtoH_v2", read, block, ctypes.c_size_t(size))
        same = read.raw == written
        print(f"{size} bytes: address mod 512 is {block.value % 512}, read back: {same}")
        failures += not same
        call("cuMemFree_v2", block)

    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    print(f"free within total: {0 < free.value <= total.value}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
