"""What PyTorch is asked to do on the software driver. Run by scripts/frameworks, in a process of its own for each case:

    python pytorch_cases.py CASE

Prints facts, one JSON object a line: data that were copied, exceptions, memory statistics. They must be the same bare and
under cubfc. Kernels compute nothing there, so a fact is never a computed number.
"""
import ctypes
import gc
import json
import os
import re
import sys
import threading

import torch
from torch import nn

MIB = 1 << 20
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def fact(**facts):
    print(json.dumps(facts), flush=True)


# What cubfc must not change: PyTorch's own books. Counters of retries and of free memory depend on nothing else either.
def books(name, device=0):
    of_pytorch = is_of_pytorch()
    if not of_pytorch:
        torch.cuda.synchronize()  # what is used of a pool depends on how far the frees have got
    stats = torch.cuda.memory_stats(device)
    kept = {key: value for key, value in stats.items() if key.split(".")[0] in (
        "allocated_bytes", "reserved_bytes", "active_bytes", "allocation", "segment", "num_alloc_retries", "num_ooms",
        "num_device_alloc", "num_device_free")
        and (of_pytorch or key.endswith(".current") and not key.startswith("reserved"))}
    fact(books=name, **kept)


def is_caching():
    return os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING") is None


def is_of_pytorch():
    """Whether what is reserved, and the most of it, is PyTorch's to say; else it is a pool's of the driver's."""
    return torch.cuda.get_allocator_backend() == "native"


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.heads = heads

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.attention(self.first(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        weights = (query @ key.transpose(-2, -1)).softmax(-1)
        x = x + self.out((weights @ value).transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.second(x))


class GPT(nn.Module):
    def __init__(self, vocabulary=8192, width=512, depth=6, heads=8, length=256):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(depth)])
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.blocks(x))


def train(model, optimizer, batches, loss_of):
    for inputs, targets in batches:
        loss = loss_of(model(inputs.cuda()), targets.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()


@case
def copies():
    """Data that go to the device and come back are what they were."""
    for count in (1, 1000, 1 << 20, (3 << 20) + 7):
        data = torch.arange(count, dtype=torch.int32)
        there = data.cuda()
        again = there.clone()
        fact(count=count, back=bool(torch.equal(there.cpu(), data)), cloned=bool(torch.equal(again.cpu(), data)))
    pinned = torch.arange(100000).pin_memory()
    there = pinned.to("cuda", non_blocking=True)
    torch.cuda.synchronize()
    fact(pinned=bool(torch.equal(there.cpu(), pinned)))
    books("copies")


@case
def mlp():
    model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 10)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    batches = [(torch.randn(256, 1024), torch.zeros(256, dtype=torch.long)) for _ in range(5)]
    train(model, optimizer, batches, nn.functional.cross_entropy)
    books("mlp")


@case
def gpt():
    model = GPT().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    batches = [(torch.zeros(8, 256, dtype=torch.long), torch.zeros(8 * 256, dtype=torch.long)) for _ in range(4)]
    train(model, optimizer, batches, lambda out, targets: nn.functional.cross_entropy(out.flatten(0, 1), targets))
    books("gpt")
    model.eval()
    with torch.no_grad():
        for length in (64, 128, 256):
            model(torch.zeros(2, length, dtype=torch.long, device="cuda"))
    books("gpt, inference")


@case
def large():
    """A model that fills a GPU of 80 GiB trains in little of the host's memory: the driver keeps no data (STANDIN_DATA)."""
    width = 2560
    with torch.device("cuda"):
        model = nn.Sequential(*(Block(width, 32) for _ in range(28)), nn.Linear(width, 50257, bias=False))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        loss = model(torch.zeros(4, 1024, width).cuda()).float().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        fact(loss=loss.item())  # no copy and no set wrote it
    fact(host_memory_is_little=host_peak_bytes() < 3 << 30)
    books("large")


def host_peak_bytes():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM:"))


@case
def convolutions():
    layers = []
    for inputs, outputs in ((3, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    batches = [(torch.randn(16, 3, 64, 64), torch.zeros(16, dtype=torch.long)) for _ in range(3)]
    train(model, optimizer, batches, nn.functional.cross_entropy)
    books("convolutions")


@case
def vision():
    """torchvision: a network is trained, another infers, and kernels of its own; not nms(), whose result is as long as a value says
    that no kernel has computed here."""
    from torchvision import models, ops
    model = models.resnet18(num_classes=10).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = [(torch.randn(8, 3, 128, 128), torch.zeros(8, dtype=torch.long)) for _ in range(2)]
    train(model, optimizer, batches, nn.functional.cross_entropy)
    books("resnet18")
    with torch.no_grad():
        models.vit_b_16().cuda().eval()(torch.randn(2, 3, 224, 224).cuda())
    books("vit_b_16, inference")
    boxes = torch.tensor([[0.0, 0.0, 20.0, 20.0], [10.0, 10.0, 60.0, 60.0]]).cuda()
    image = torch.randn(1, 8, 64, 64).cuda()
    shapes = [list(out.shape) for out in (
        ops.roi_align(image, [boxes], (7, 7)), ops.roi_pool(image, [boxes], (7, 7)),
        ops.deform_conv2d(image, torch.zeros(1, 18, 62, 62).cuda(), torch.randn(4, 8, 3, 3).cuda()))]
    fact(shapes=shapes)
    books("kernels of its own")


@case
def quantized():
    """bitsandbytes: optimizers of 8 bits, one of them with pages of managed memory; layers of 8 and of 4 bits."""
    import bitsandbytes
    for kind in (bitsandbytes.optim.Adam8bit, bitsandbytes.optim.PagedAdamW8bit, bitsandbytes.optim.Lion):
        model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 10)).cuda()
        batches = [(torch.randn(64, 512), torch.zeros(64, dtype=torch.long)) for _ in range(3)]
        train(model, kind(model.parameters()), batches, nn.functional.cross_entropy)
        books(kind.__name__)
    for layer in (bitsandbytes.nn.Linear8bitLt(1024, 1024, has_fp16_weights=False),
                  bitsandbytes.nn.Linear4bit(1024, 1024, quant_type="nf4", compute_dtype=torch.half)):
        out = layer.cuda()(torch.randn(16, 1024).half().cuda())
        fact(layer=type(layer).__name__, shape=list(out.shape))
    books("layers")


@case
def graphs():
    """CUDA graphs with private pools: captured, replayed, their memory given back."""
    x = torch.zeros(1 << 20, device="cuda")
    layer = nn.Linear(1024, 1024).cuda()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        layer(x.view(1024, 1024))
    torch.cuda.synchronize()
    captured = []
    for _ in range(3):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = layer(x.view(1024, 1024)) * 2
        captured.append((graph, out))
    shared = torch.cuda.CUDAGraph()
    with torch.cuda.graph(shared, pool=captured[0][0].pool()):
        captured.append((shared, layer(x.view(1024, 1024)) + 1))
    for graph, _ in captured:
        graph.replay()
    torch.cuda.synchronize()
    books("captured")
    captured.clear()
    del graph, out, shared
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    books("given back")


@case
def streams():
    """Memory that is used in another stream is not handed out too early."""
    streams = [torch.cuda.Stream() for _ in range(4)]
    for step in range(40):
        blocks = []
        for stream in streams:
            with torch.cuda.stream(stream):
                blocks.append(torch.full((1 << 18,), step, dtype=torch.uint8).cuda(non_blocking=True))
        for block, stream in zip(blocks, streams[1:] + streams[:1]):
            block.record_stream(stream)
        blocks.clear()
    torch.cuda.synchronize()
    fact(streams=len(streams))
    del blocks, block
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    fact(allocated=torch.cuda.memory_allocated(),
         reserved=torch.cuda.memory_reserved() if is_caching() and is_of_pytorch() else 0)


@case
def pinned():
    blocks = [torch.empty(size, dtype=torch.uint8, pin_memory=True) for size in (1, 4096, MIB, 50 * MIB)]
    fact(pinned=[block.is_pinned() for block in blocks])
    there = [block.cuda(non_blocking=True) for block in blocks]
    torch.cuda.synchronize()
    fact(sizes=[len(block) for block in there])
    books("pinned")


@case
def pools():
    """torch.cuda.MemPool: a pool of its own, whose memory goes back with it."""
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        block = torch.empty(20 * MIB, dtype=torch.uint8, device="cuda")
    fact(segments=len(pool.snapshot()) if hasattr(pool, "snapshot") else None)
    books("pool in use")
    del block, pool
    gc.collect()
    torch.cuda.empty_cache()
    books("pool gone")


@case
def brim():
    """Out of memory, and on with what there is: the device is filled, one block more fails, all of it can be had again."""
    total = torch.cuda.get_device_properties(0).total_memory
    size = 256 * MIB
    blocks = []
    try:
        while len(blocks) * size <= total:
            blocks.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
    except RuntimeError as error:  # without its cache PyTorch raises CUDA's error as it is
        fact(raises=type(error).__name__, out_of_memory="out of memory" in str(error))
    # Less than bare by cubfc's own need: within 2% of the device (docs/compatibility.md).
    fact(filled=len(blocks) * size >= 0.97 * total)
    count = len(blocks)
    blocks.clear()
    torch.cuda.empty_cache()
    for _ in range(3):
        blocks = [torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(count)]
        blocks.clear()
        torch.cuda.empty_cache()
    fact(again=True, allocated=torch.cuda.memory_allocated())
    for _ in range(3):
        try:
            torch.empty(2 * total, dtype=torch.uint8, device="cuda")
        except RuntimeError as error:
            fact(raises=type(error).__name__)
    data = torch.arange(1000)
    fact(works=bool(torch.equal(data.cuda().cpu(), data)))


def _child(queue, results):
    block = queue.get()
    results.put([int(value) for value in block.cpu()[:5]])
    del block


@case
def processes():
    """torch.multiprocessing: a tensor of this process's is read by another."""
    import torch.multiprocessing as multiprocessing
    context = multiprocessing.get_context("spawn")
    queue, results = context.Queue(), context.Queue()
    child = context.Process(target=_child, args=(queue, results))
    child.start()
    data = torch.arange(5, 100000)
    try:
        block = data.cuda()
        # The queue does so in a thread of its own, where nobody would see the exception.
        block.untyped_storage()._share_cuda_()
        queue.put(block)
        fact(read=results.get(timeout=60))
        child.join(60)
    except Exception as error:  # what is refused must be refused with the same words in each run
        fact(raises=re.sub("0x[0-9a-f]+", "ADDRESS", f"{type(error).__name__}: {error}".splitlines()[0]))
    if child.exitcode is None:
        child.kill()
        child.join()
    fact(exit=child.exitcode)


@case
def snapshots():
    torch.cuda.memory._record_memory_history(max_entries=100000)
    blocks = [torch.empty(size * MIB, dtype=torch.uint8, device="cuda") for size in (1, 5, 20, 3)]
    del blocks[1]
    torch.cuda.empty_cache()
    snapshot = torch.cuda.memory._snapshot()
    events = [event["action"] for event in snapshot["device_traces"][0]]
    fact(events=events, segments=[segment["total_size"] for segment in snapshot["segments"]])
    torch.cuda.memory._record_memory_history(enabled=None)


@case
def threads():
    errors = []

    def work(seed):
        try:
            for step in range(60):
                size = (seed * 7919 + step * 104729) % (4 * MIB) + 1
                data = torch.full((size // 64 + 1,), (seed + step) % 251, dtype=torch.uint8)
                if not torch.equal(data.cuda().cpu(), data):
                    errors.append((seed, step))
        except Exception as error:
            errors.append(repr(error))

    all_threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    fact(errors=errors, allocated=torch.cuda.memory_allocated())


def put_to_sleep():
    """Calls cubfc_sleep(), where this process can sleep. What is outside of the arena must be told."""
    if os.environ.get("CUBFC_SLEEP") != "true":
        return
    told = ctypes.create_string_buffer(1000)
    done = ctypes.CDLL(None).cubfc_sleep(told, ctypes.c_size_t(len(told)))
    text = told.value.decode()
    print(f"cubfc_sleep: {done}: {text}", file=sys.stderr)
    is_outside = not is_of_pytorch() or "expandable_segments" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
    if is_outside and not ("stay, outside of the arena" in text or "no memory of an arena" in text):
        raise AssertionError(f"memory outside of the arena was not told: {text}")
    if not is_outside and (not done or "outside" in text):
        raise AssertionError(f"it does not sleep, or not wholly: {text}")


@case
def sleeps():
    """A training that is put to sleep between its steps goes on as if nothing had been."""
    model = GPT(depth=2).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    batches = [(torch.zeros(4, 256, dtype=torch.long), torch.zeros(4 * 256, dtype=torch.long))]
    data = torch.arange(3_000_000)
    there = data.cuda()
    address = there.data_ptr()
    side = torch.cuda.Stream()
    if is_caching() and is_of_pytorch():
        torch.cuda.memory._record_memory_history(max_entries=100000)
    for _ in range(4):
        train(model, optimizer, batches, lambda out, targets: nn.functional.cross_entropy(out.flatten(0, 1), targets))
        torch.cuda.synchronize()
        put_to_sleep()
        with torch.cuda.stream(side):
            copy = there.clone()
        side.synchronize()
        fact(back=bool(torch.equal(there.cpu(), data)), cloned=bool(torch.equal(copy.cpu(), data)), moved=there.data_ptr() != address)
        del copy
        books("slept")
    if is_caching() and is_of_pytorch():
        snapshot = torch.cuda.memory._snapshot()
        fact(segments=[(segment["total_size"], [(block["size"], block["state"]) for block in segment["blocks"]])
                       for segment in snapshot["segments"]],
             events=[(event["action"], event["size"]) for event in snapshot["device_traces"][0]])
        torch.cuda.memory._record_memory_history(enabled=None)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in CASES:
        sys.exit(f"usage: pytorch_cases.py {'|'.join(CASES)}")
    torch.manual_seed(0)
    CASES[sys.argv[1]]()
    if is_caching() and is_of_pytorch():
        fact(most_reserved=torch.cuda.max_memory_reserved())
