"""numba_kernels.py: kernels that Numba compiles, on arrays that it allocates."""

from results import lacks, result

try:
    import numpy
    from numba import cuda
except ImportError as error:
    lacks(str(error))


@cuda.jit
def saxpy(factor, x, y):
    index = cuda.grid(1)
    if index < x.size:
        y[index] += factor * x[index]


@cuda.jit
def row_sums(matrix, sums):
    row = cuda.grid(1)
    if row < matrix.shape[0]:
        total = 0.0
        for column in range(matrix.shape[1]):
            total += matrix[row, column]
        sums[row] = total


def main():
    if not cuda.is_available():
        lacks("a CUDA device that Numba can use")
    numbers = numpy.random.default_rng(1)
    y = cuda.to_device(numpy.zeros(1 << 20))
    for number in range(50):
        x = cuda.to_device(numbers.random(1 << 20))
        saxpy[4096, 256](float(number), x, y)
    result("saxpy", y.copy_to_host())
    for rows in (100, 1000, 10_000):
        sums = cuda.to_device(numpy.zeros(rows))
        row_sums[(rows + 127) // 128, 128](cuda.to_device(numbers.random((rows, 300))), sums)
        result(f"sums of {rows} rows", sums.copy_to_host())
    streams = [cuda.stream() for _ in range(3)]
    outputs = []
    for number in range(30):
        stream = streams[number % 3]
        values = cuda.to_device(numpy.full(10_000, float(number)), stream=stream)
        output = cuda.to_device(numpy.ones(10_000), stream=stream)
        saxpy[40, 256, stream](2.0, values, output)
        outputs.append(output)
    cuda.synchronize()
    result("streams", numpy.stack([output.copy_to_host() for output in outputs]))


if __name__ == "__main__":
    main()
