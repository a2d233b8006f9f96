"""pytorch.py training|compiled|graphs|streams|inference|out_of_memory|steps|pairs: what people do with
PyTorch, small enough for a minute and the same in every run."""

import os
import sys
import time

# cuBLAS repeats its results bit for bit only with a workspace of a fixed size (cuBLAS, "Reproducibility").
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

from results import lacks, measured, result

try:
    import torch
    from torch import nn
except ImportError as error:
    lacks(str(error))

DEVICE = torch.device("cuda")


def transformer(width=512, layers=4):
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).to(DEVICE)


def batches(count, batch=16, width=512):
    """Of changing length, so that sizes differ from step to step."""
    generator = torch.Generator().manual_seed(2)
    for number in range(count):
        length = 64 + 32 * (number % 7)
        yield torch.randn(batch, length, width, generator=generator).to(DEVICE)


def parameters(model):
    return torch.cat([each.detach().reshape(-1) for each in model.parameters()]).cpu().numpy()


def train(model, inputs):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for batch in inputs:
        loss = (model(batch) - batch).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return loss.item()


def training():
    model = transformer()
    print(f"loss: {train(model, batches(20)):.9g}")
    result("parameters", parameters(model))
    convolutions = nn.Sequential(
        nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(4096, 10),
    ).to(DEVICE)
    optimizer = torch.optim.SGD(convolutions.parameters(), lr=0.01, momentum=0.9)
    for number in range(10):
        images = torch.randn(32 + number, 3, 64, 64, generator=torch.Generator().manual_seed(number)).to(DEVICE)
        loss = nn.functional.cross_entropy(convolutions(images), torch.arange(len(images), device=DEVICE) % 10)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    result("convolutions", parameters(convolutions))


def compiled():
    model = transformer(layers=2)
    fast = torch.compile(model, dynamic=True)
    print(f"loss: {train(fast, batches(8)):.9g}")
    result("parameters", parameters(model))


def graphs():
    """Capture and replay, beside allocations that are made between the replays."""
    model = transformer(layers=2).eval()
    static_input = torch.zeros(8, 128, 512, device=DEVICE)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(side):
        for _ in range(3):
            model(static_input)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        static_output = model(static_input)
    total = torch.zeros_like(static_output)
    for batch in batches(20, batch=8):
        static_input.copy_(torch.nn.functional.pad(batch, (0, 0, 0, 256))[:, :128])
        graph.replay()
        total += static_output * torch.full_like(static_output, 0.5)
    result("total", total.cpu().numpy())


def streams():
    """Work in four streams on memory that is freed while it runs."""
    side = [torch.cuda.Stream() for _ in range(4)]
    matrices = [batch[0, :64, :64].contiguous() for batch in batches(4)]
    sums = [torch.zeros(64, 64, device=DEVICE) for _ in side]
    torch.cuda.synchronize()
    for number in range(200):
        stream = side[number % 4]
        with torch.cuda.stream(stream):
            large = matrices[number % 4].repeat(16, 16)
            product = torch.tanh(large @ large / 64)
            sums[number % 4] += product[:64, :64]
            product.record_stream(stream)
            del large, product
    torch.cuda.synchronize()
    result("sums", torch.stack(sums).cpu().numpy())


def inference():
    model = transformer().eval().half()
    outputs = []
    with torch.inference_mode():
        for batch in batches(40):
            outputs.append(model(batch.half()).float()[:, 0, :16])
    result("outputs", torch.cat(outputs).cpu().numpy())


def out_of_memory():
    """Runs out of memory, catches it, frees some, and goes on."""

    def ones(count):
        return torch.ones(count, dtype=torch.uint8, device=DEVICE)

    def samples(block):
        return int(block[::4096].sum())

    samples(ones(1 << 20))  # a kernel is loaded with its first use, and that takes memory
    held = []
    try:
        while len(held) < 10_000:
            held.append(ones(64 << 20))
        print("10,000 blocks of 64 MiB were given")
    except RuntimeError as error:  # without its cache, PyTorch does not say OutOfMemoryError
        print("ran out of memory" if "out of memory" in str(error) else f"failed: {error}")
    del held[-4:]
    torch.cuda.empty_cache()
    whole = all(samples(block) == (64 << 20) // 4096 for block in held)
    print("what is held is whole" if held and whole else "what is held is damaged")
    held.clear()
    torch.cuda.empty_cache()
    square = torch.ones(1024, 1024, device=DEVICE)
    result("afterwards", (square @ square).cpu().numpy())


def steps():
    """Training steps a second, of a model whose allocations are many and of changing sizes."""
    model = transformer(layers=6)
    inputs = list(batches(14))
    train(model, inputs)
    torch.cuda.synchronize()
    rates = []
    begun = time.perf_counter()
    while len(rates) < 15 and (len(rates) < 3 or time.perf_counter() - begun < 8):
        start = time.perf_counter()
        train(model, inputs)
        torch.cuda.synchronize()
        rates.append(len(inputs) / (time.perf_counter() - start))
    measured("steps_per_second", sorted(rates)[len(rates) // 2], "1/s")
    if not os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
        measured("peak_reserved", torch.cuda.max_memory_reserved(), "bytes")
        measured("peak_allocated", torch.cuda.max_memory_allocated(), "bytes")


def pairs():
    """ns for torch.empty and its end, by size; on the CPU's meta device for what is not allocation."""

    def pair(size, device):
        rounds = []
        for _ in range(7):
            count = 0
            start = time.perf_counter_ns()
            while count < 20_000 and time.perf_counter_ns() - start < 50_000_000:
                torch.empty(size, dtype=torch.uint8, device=device)
                count += 1
            rounds.append((time.perf_counter_ns() - start) / count)
        return sorted(rounds)[len(rounds) // 2]

    measured("floor", pair(1024, torch.device("meta")), "ns")
    for size in (512, 65536, 1 << 20, 16 << 20, 64 << 20):
        torch.empty(size, dtype=torch.uint8, device=DEVICE)
        measured(f"pair_{size}", pair(size, DEVICE), "ns")


def repeat_results():
    """The same bits in every run, as far as PyTorch knows how; not for what is timed."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # a kernel more for each allocation
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    # The backward passes of the others add up in an order that changes.
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)


SCENARIOS = (training, compiled, graphs, streams, inference, out_of_memory, steps, pairs)


def main(name):
    for scenario in SCENARIOS:
        if scenario.__name__ == name:
            break
    else:
        sys.exit(__doc__)
    if not torch.cuda.is_available():
        lacks("a CUDA device that PyTorch can use")
    if scenario not in (steps, pairs):
        repeat_results()
    scenario()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) == 2 else "")
