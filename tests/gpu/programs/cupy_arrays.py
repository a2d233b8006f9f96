"""cupy_arrays.py pool|no_pool|async_pool: arrays in CuPy, with its memory pool, without one, and with CUDA's."""

import sys

from results import lacks, result

try:
    import cupy
    import numpy
except ImportError as error:
    lacks(str(error))

ALLOCATORS = {
    "pool": lambda: None,
    "no_pool": lambda: cupy.cuda.set_allocator(None),
    "async_pool": lambda: cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc),
}


def main(name):
    if name not in ALLOCATORS:
        sys.exit(__doc__)
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        lacks(str(error))
    ALLOCATORS[name]()
    numbers = numpy.random.default_rng(1)
    total = cupy.zeros(4096, dtype=cupy.float32)
    for number in range(60):
        array = cupy.asarray(numbers.random(1 << (12 + number % 8), dtype=numpy.float32))
        array = cupy.sort(cupy.sqrt(array) * 2 - array)
        total += cupy.resize(array, 4096)
    result("sorted", cupy.asnumpy(total))
    matrix = cupy.asarray(numbers.random((512, 512), dtype=numpy.float32))
    result("product", cupy.asnumpy(matrix @ matrix.T))
    result("spectrum", cupy.asnumpy(cupy.abs(cupy.fft.fft2(matrix))))
    result("solution", cupy.asnumpy(cupy.linalg.solve(matrix + 512 * cupy.eye(512, dtype=cupy.float32), matrix[0])))
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
    sums = cupy.zeros((4, 256), dtype=cupy.float32)
    cupy.cuda.Device().synchronize()
    for number in range(200):
        with streams[number % 4]:
            block = cupy.full((256, 1024), number, dtype=cupy.float32)
            sums[number % 4] += block.sum(axis=1)
            del block
    cupy.cuda.Device().synchronize()
    result("sums", cupy.asnumpy(sums))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) == 2 else "")
