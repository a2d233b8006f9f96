"""What ONNX Runtime is asked to do on the software driver. Run by scripts/frameworks, in a process of its own:

    python onnxruntime_cases.py onnx

Prints facts, as pytorch_cases.py does: they must be the same bare and under cubfc.
"""
import json
import sys
import threading

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

FLOAT = onnx.TensorProto.FLOAT
MIB = 1 << 20


def fact(**facts):
    print(json.dumps(facts), flush=True)


def weights(name, *shape):
    return numpy_helper.from_array(np.random.default_rng(0).standard_normal(shape).astype(np.float32), name)


def session(nodes, parameters, taken, given, **options):
    """`taken` and `given` are the shapes of the input x and of the output y. On the device, or not at all."""
    graph = helper.make_graph(nodes, "graph", [helper.make_tensor_value_info("x", FLOAT, taken)],
                              [helper.make_tensor_value_info("y", FLOAT, given)], parameters)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 4  # what fails is a fact, not a message
    made = onnxruntime.InferenceSession(model.SerializeToString(), quiet, providers=[("CUDAExecutionProvider", options)])
    made.disable_fallback()
    fact(providers=made.get_providers())
    return made


def perceptron(batch="n", **options):
    return session([helper.make_node("MatMul", ["x", "W1"], ["a"]), helper.make_node("Relu", ["a"], ["b"]),
                    helper.make_node("MatMul", ["b", "W2"], ["c"]), helper.make_node("Softmax", ["c"], ["y"])],
                   [weights("W1", 512, 2048), weights("W2", 2048, 512)], [batch, 512], [batch, 512], **options)


def convolutions():
    return session([helper.make_node("Conv", ["x", "W1"], ["a"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["a"], ["b"]),
                    helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
                    helper.make_node("Conv", ["c", "W2"], ["d"], pads=[1, 1, 1, 1]),
                    helper.make_node("GlobalAveragePool", ["d"], ["y"])],
                   [weights("W1", 32, 3, 3, 3), weights("W2", 64, 32, 3, 3)], ["n", 3, 64, 64], ["n", 64, 1, 1])


def run(of, *shape):
    return list(of.run(None, {"x": np.ones(shape, np.float32)})[0].shape)


def on_device(data):
    return onnxruntime.OrtValue.ortvalue_from_numpy(data, "cuda", 0)


def batches_of_changing_sizes():
    for strategy in ("kNextPowerOfTwo", "kSameAsRequested"):
        model = perceptron(arena_extend_strategy=strategy)
        fact(strategy=strategy, shapes=[run(model, count, 512) for count in (1, 64, 4096, 3, 700)])
    model = convolutions()
    fact(shapes=[run(model, count, 3, 64, 64) for count in (1, 16, 5)])


def a_captured_graph():
    model = perceptron(8, enable_cuda_graph="1")
    x, y = on_device(np.full((8, 512), 3, np.float32)), on_device(np.zeros((8, 512), np.float32))
    binding = model.io_binding()
    binding.bind_ortvalue_input("x", x)
    binding.bind_ortvalue_output("y", y)
    for _ in range(5):
        model.run_with_iobinding(binding)
    fact(input_is_kept=bool((x.numpy() == 3).all()), shape=y.shape())


def data_there_and_back():
    for count in (1, 1000, MIB, 3 * MIB + 7):
        data = np.arange(count, dtype=np.float32)
        fact(count=count, back=bool(np.array_equal(on_device(data).numpy(), data)))


def threads_of_one_session():
    model, wrong = perceptron(), []

    def work(seed):
        for step in range(20):
            count = seed * 37 % 50 + step + 1
            try:
                if run(model, count, 512) != [count, 512]:
                    wrong.append((seed, step))
            except Exception as error:
                wrong.append(repr(error))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fact(wrong=wrong)


def at_the_brim():
    """A limit of ONNX Runtime's own, then the device's end; it works again after each."""
    model = perceptron(gpu_mem_limit=str(64 * MIB))
    for count in (8, 1 << 16, 8):
        try:
            fact(shape=run(model, count, 512))
        except Exception as error:
            fact(raises=type(error).__name__)
    blocks = []
    try:
        while len(blocks) < 1000:
            blocks.append(onnxruntime.OrtValue.ortvalue_from_shape_and_type((64 * MIB,), np.float32, "cuda", 0))
    except Exception as error:
        fact(raises=type(error).__name__)
    # Less than bare by cubfc's own need: within 2% of the device of 24 GiB.
    fact(filled=92 <= len(blocks) <= 96)
    blocks.clear()
    data_there_and_back()


if __name__ == "__main__":
    if sys.argv[1:] != ["onnx"]:
        sys.exit("usage: onnxruntime_cases.py onnx")
    batches_of_changing_sizes()
    a_captured_graph()
    data_there_and_back()
    threads_of_one_session()
    at_the_brim()
