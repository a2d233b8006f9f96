"""jax_training.py: a small network trained with JAX, under whatever allocator JAX was told to use."""

import os

# Sums in an order that does not change from run to run.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_deterministic_ops=true"

from results import lacks, result

try:
    import jax
    import jax.numpy as jnp
    import numpy
except ImportError as error:
    lacks(str(error))


def loss(parameters, inputs, targets):
    values = inputs
    for weights, bias in parameters[:-1]:
        values = jnp.tanh(values @ weights + bias)
    weights, bias = parameters[-1]
    return jnp.mean((values @ weights + bias - targets) ** 2)


@jax.jit
def step(parameters, inputs, targets):
    value, gradients = jax.value_and_grad(loss)(parameters, inputs, targets)
    return value, jax.tree.map(lambda each, gradient: each - 0.05 * gradient, parameters, gradients)


def main():
    if jax.default_backend() != "gpu":
        lacks(f"a GPU that JAX can use (it uses: {jax.default_backend()})")
    numbers = numpy.random.default_rng(1)
    widths = (256, 1024, 1024, 64)
    parameters = [
        (jnp.asarray(numbers.standard_normal((rows, columns), dtype=numpy.float32) / rows**0.5), jnp.zeros(columns))
        for rows, columns in zip(widths, widths[1:])
    ]
    for number in range(60):
        size = 64 * (1 + number % 4)
        inputs = jnp.asarray(numbers.standard_normal((size, 256), dtype=numpy.float32))
        value, parameters = step(parameters, inputs, inputs[:, :64])
    print(f"loss: {float(value):.9g}")
    for number, (weights, bias) in enumerate(parameters):
        result(f"layer {number}", numpy.asarray(weights))
    keys = jax.random.split(jax.random.key(0), 16)
    result("sorted", numpy.asarray(jax.vmap(lambda key: jnp.sort(jax.random.normal(key, (100_000,))))(keys)))


if __name__ == "__main__":
    main()
