"""driver_bindings.py: the driver through NVIDIA's Python bindings, with no runtime between."""

import sys

from results import lacks, result

try:
    import numpy
    from cuda.bindings import driver
except ImportError as error:
    lacks(str(error))


def call(function, *arguments):
    status, *values = function(*arguments)
    if status != driver.CUresult.CUDA_SUCCESS:
        sys.exit(f"{function.__name__}: {status}")
    return values[0] if len(values) == 1 else values


def main():
    try:
        status = driver.cuInit(0)[0]
    except RuntimeError as error:
        lacks(str(error))
    if status != driver.CUresult.CUDA_SUCCESS:
        lacks(f"a CUDA device ({status})")
    device = call(driver.cuDeviceGet, 0)
    context = call(driver.cuDevicePrimaryCtxRetain, device)
    call(driver.cuCtxSetCurrent, context)
    numbers = numpy.random.default_rng(1)
    stream = call(driver.cuStreamCreate, 1)
    for size in (1000, 1_000_000, 10_000_000):
        source = numbers.integers(0, 255, size, dtype=numpy.uint8)
        target = numpy.zeros_like(source)
        first = call(driver.cuMemAlloc, size)
        second = call(driver.cuMemAlloc, size)
        call(driver.cuMemcpyHtoD, first, source.ctypes.data, size)
        call(driver.cuCtxSynchronize)  # a copy from pageable memory may be on its way still, and our stream waits for none
        call(driver.cuMemcpyDtoDAsync, second, first, size, stream)
        call(driver.cuMemsetD8Async, second, 7, size // 2, stream)
        call(driver.cuMemFree, first)
        call(driver.cuStreamSynchronize, stream)
        call(driver.cuMemcpyDtoH, target.ctypes.data, second, size)
        call(driver.cuMemFree, second)
        result(f"{size} bytes", target)
    again = driver.cuMemFree(second)[0]
    print(f"freed twice: {again.name}")
    call(driver.cuDevicePrimaryCtxRelease, device)


if __name__ == "__main__":
    main()
