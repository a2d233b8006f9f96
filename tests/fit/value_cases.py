"""Small programs that read values back, for `cubfc fit`. Run in a process of its own for each:

    python value_cases.py CASE

Each must end. What it prints must be what the CPU would have printed (EXPECTED), where values are small enough to be known; else
what is the most that there can be.
"""
import sys

import torch
from torch import nn
from torch.nn import functional

CASES = {}


def case(expected):
    """`expected`: the lines that it prints; None where they are drawn at random."""
    def add(function):
        CASES[function.__name__] = (function, expected)
        return function
    return add


def device(values, **options):
    return torch.tensor(values, **options).cuda()


class Net(nn.Module):
    """Large enough that its numbers are not known."""
    def __init__(self, width=256, out=10):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 1024), nn.ReLU(), nn.Linear(1024, out))

    def forward(self, x):
        return self.layers(x)


def batch(count=64, width=256):
    return torch.randn(count, width).cuda(), torch.randint(0, 10, (count,)).cuda()


@case(["True"])
def loss_item():
    x, y = batch()
    print(functional.cross_entropy(Net().cuda()(x), y).item() >= 0)


@case(["finite"])
def clip_grad_norm():
    net = Net().cuda()
    x, y = batch()
    functional.cross_entropy(net(x), y).backward()
    norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0, error_if_nonfinite=True)
    print("finite" if torch.isfinite(norm) else "not")


@case(["True", "True", "False"])
def isfinite():
    x, _ = batch()
    out = Net().cuda()(x)
    assert torch.isfinite(out).all()
    print(bool(torch.isfinite(out).all()))
    print(bool(torch.isfinite(device([1.0, 2.0])).all()))
    print(bool(torch.isfinite(device([1.0, float("inf")])).all()))


@case(["[8, 128, 128] True", "[64, 64] True"])
def matrix_exp():
    """Each with a polynomial of the highest degree, which takes at least ten times the matrix."""
    for shape in ((8, 128, 128), (64, 64)):
        matrix = torch.randn(*shape).cuda()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        out = torch.matrix_exp(matrix)
        rise = torch.cuda.max_memory_allocated() - before
        print(list(out.shape), rise >= 10 * matrix.numel() * matrix.element_size())


@case(["[3, 16]", "[2, 4]"])
def segment_reduce():
    print(list(torch.segment_reduce(torch.randn(1000, 16).cuda(), "sum", lengths=device([200, 300, 500]), axis=0).shape))
    found = (torch.randn(100000).cuda() > 0).sum()
    lengths = torch.stack([found, 100000 - found])
    print(list(torch.segment_reduce(torch.randn(100000, 4).cuda(), "sum", lengths=lengths, axis=0).shape))


@case(["False", "True"])
def isnan():
    x, _ = batch()
    print(bool(torch.isnan(Net().cuda()(x)).any()))
    print(bool(torch.isnan(device([1.0, float("nan")])).any()))


@case(["done"])
def anomaly_detection():
    net = Net().cuda()
    with torch.autograd.detect_anomaly(check_nan=True):
        for _ in range(3):
            x, y = batch()
            functional.cross_entropy(net(x), y).backward()
    print("done")


@case(["[8, 3]", "True"])
def multinomial():
    out = torch.multinomial(torch.rand(8, 50000).cuda(), 3)
    print(list(out.shape))
    few = torch.multinomial(device([0.0, 1.0, 0.0]), 1)
    print(few.item() == 1)


@case(["[1000, 64] [1000, 64] [300000, 2]", "2097152 1048576 False True"])
def masks_of_guesses():
    x = torch.randn(1000, 64).cuda()
    score = nn.Linear(64, 1).cuda()(x).squeeze(1)
    large = torch.randn(300000, 2, device="cuda")
    print(list(x[score < 0].shape), list(x[score > 0].shape), list(large[large[:, 0] < 0].shape))
    labels = torch.randint(0, 21, (8, 512, 512)).cuda()
    ones, zeros = torch.ones(1 << 20, dtype=torch.bool, device="cuda"), torch.zeros(1 << 20, device="cuda")
    print((labels != 255).sum().item(), ones.sum().item(), zeros.any().item(), ones.all().item())


@case(["0 1024"])
def each_expert_gets_some():
    experts = nn.ModuleList(nn.Linear(256, 256) for _ in range(8)).cuda()
    x = torch.randn(1024, 256).cuda()
    weights, which = nn.Linear(256, 8).cuda()(x).softmax(-1).topk(2, -1)
    out = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        rows, place = torch.where(which == number)
        if rows.numel():
            out = out.index_add(0, rows, expert(x[rows]) * weights[rows, place, None])
    out.sum().backward()
    print(sum(parameter.grad is None for parameter in experts.parameters()), out.size(0))


@case(["50 2 [2, 2]", "[[4, 8, 8], [4, 8, 8]] [4, 8, 8] [2, 8]"])
def sizes_within_operators():
    places = device([[0, 1, 1], [2, 0, 0]])
    sparse = torch.sparse_coo_tensor(places, device([1.0, 2.0, 3.0]), (2, 3)).coalesce()
    print(torch.eye(50, device="cuda").to_sparse()._nnz(), sparse._nnz(), list(torch.unique(device([[1, 2], [1, 2], [3, 4]]), dim=0).shape))
    a = torch.randn(4, 8, 8, device="cuda")
    orthogonal = nn.utils.parametrizations.orthogonal(nn.Linear(8, 8).cuda())
    print([list(each.shape) for each in torch.linalg.qr(a)], list(torch.linalg.lstsq(a, a).solution.shape),
          list(orthogonal(torch.randn(2, 8, device="cuda")).shape))


@case(["2", "[1, 0]", "True"])
def argmax():
    print(device([1.0, 5.0, 7.0, 2.0]).argmax().item())
    print(device([[1, 5], [7, 2]]).argmax(-1).tolist())
    print(Net().cuda()(batch()[0]).argmax().item() < 640)


class Model(nn.Module):
    """Of a language, with a cache."""
    def __init__(self, vocabulary=32000, width=128):
        super().__init__()
        self.tokens, self.mix, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, width), nn.Linear(width, vocabulary)

    def forward(self, tokens, cache=None):
        x = self.tokens(tokens)
        cache = x if cache is None else torch.cat([cache, x], 1)
        return self.head(self.mix(cache).mean(1)), cache


def own_loop(choose, end=2, most=40):
    model, tokens, cache = Model().cuda().eval(), device([[5, 6, 7]]), None
    with torch.no_grad():
        for _ in range(most):
            logits, cache = model(tokens if cache is None else tokens[:, -1:], cache)
            tokens = torch.cat([tokens, choose(logits)], 1)
            if tokens[0, -1] == end:
                break
    print(tokens.shape[1])


@case(["43"])
def generate_greedy():
    own_loop(lambda logits: logits.argmax(-1, keepdim=True))


@case(["43"])
def generate_sampling():
    own_loop(lambda logits: torch.multinomial(logits.softmax(-1), 1))


@case(["43"])
def generate_with_end_token_zero():
    own_loop(lambda logits: logits.argmax(-1, keepdim=True), end=0)


@case(["43"])
def generate_top_k():
    def choose(logits):
        values, indices = torch.topk(logits, 50)
        return indices.gather(-1, torch.multinomial(values.softmax(-1), 1))
    own_loop(choose)


@case(["4"])
def while_norm():
    x, count = device([8.0, 6.0]), 0
    while x.norm() > 1:
        x, count = x / 2, count + 1
    print(count)


@case(["True"])
def while_rand():
    count = 0
    while torch.rand((), device="cuda") < 0.5:
        count += 1
    print(count < 100)


@case(["True", "done"])
def grad_scaler():
    net, scaler = Net().cuda(), torch.amp.GradScaler("cuda")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(4):
        x, y = batch()
        with torch.autocast("cuda", torch.float16):
            loss = functional.cross_entropy(net(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    print(scaler.get_scale() == 65536.0)
    print("done")


@case(["done"])
def early_stopping():
    net, best, patience = Net().cuda(), float("inf"), 0
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(50):
        x, y = batch()
        loss = functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        patience = 0 if loss.item() < best - 1e-4 else patience + 1
        best = min(best, loss.item())
        if patience > 5:
            break
    print("done")


@case(["done"])
def lbfgs():
    net = Net().cuda()
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=10, line_search_fn="strong_wolfe")
    x, y = batch()

    def closure():
        optimizer.zero_grad()
        loss = functional.cross_entropy(net(x), y)
        loss.backward()
        return loss
    for _ in range(2):
        optimizer.step(closure)
    print("done")


@case(["[3, 5, 2]", "5"])
def lengths():
    mask = device([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
    print(mask.sum(1).tolist())
    print(torch.empty(3, mask.sum(1).max(), device="cuda").shape[1])


@case(["[2, 3, 1]"])
def split():
    sizes = device([2, 3, 1])
    print([len(part) for part in torch.zeros(6, 4, device="cuda").split(sizes.tolist())])


@case(["[3, 5]", "[[0, 1, 0], [0, 0, 1]]"])
def one_hot():
    print(list(functional.one_hot(device([1, 4, 2])).shape))
    print(functional.one_hot(device([1, 2]), 3).tolist())


@case(["[[0], [2], [4]]", "[65536, 2]"])
def nonzero():
    print(device([1, 0, 2, 0, 3]).nonzero().tolist())
    x = torch.randn(256, 256).cuda()
    print(list((x @ x).nonzero().shape))


@case(["[1, 2, 3]", "[16384]", "[16384]"])
def masks():
    few = device([1, 0, 2, 0, 3])
    print(few[few > 0].tolist())
    x = torch.randn(128, 128).cuda()
    y = x @ x
    print(list(y[y > 0.5].shape))
    print(list(torch.masked_select(y, y > 0).shape))


@case(["[4]", "done"])
def mask_assignment():
    labels = device([5, -100, 7, 9, -100, 2])
    print(list(labels[labels != -100].shape))
    x = torch.randn(128, 128).cuda()
    x[x > 0] = torch.zeros((), device="cuda")
    x[(x @ x) > 0] *= 2
    print("done")


@case(["[1, 2, 3]", "[2, 0, 1, 2]", "[1, 1, 2]", "[2, 3]"])
def unique():
    values, inverse, counts = device([3, 1, 2, 3]).unique(return_inverse=True, return_counts=True)
    print(values.tolist())
    print(inverse.tolist())
    print(counts.tolist())
    print(torch.unique_consecutive(device([2, 2, 3])).tolist())


@case(["[2, 1, 1, 1]", "[0, 2, 0, 1, 0, 0]"])
def bincount():
    print(torch.bincount(device([1, 0, 2, 0, 3])).tolist())
    print(torch.bincount(device([1, 3, 1]), minlength=6).tolist())


@case(["[0, 1, 1, 2, 2, 2]"])
def repeat_interleave():
    print(torch.repeat_interleave(device([1, 2, 3])).tolist())


class Experts(nn.Module):
    def __init__(self, width=64, count=8):
        super().__init__()
        self.router = nn.Linear(width, count)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(count))

    def forward(self, x):
        weights, chosen = torch.topk(self.router(x).softmax(-1), 2)
        out, seen = torch.zeros_like(x), 0
        for number, expert in enumerate(self.experts):
            rows, _ = torch.where(chosen == number)
            seen += len(rows)
            out.index_add_(0, rows, expert(x[rows]))
        return out, seen


@case(["2048"])
def routing():
    print(Experts().cuda()(torch.randn(1024, 64).cuda())[1])


@case(["[0, 1, 2, 3, 4, 5, 6, 7]"])
def randperm():
    print(sorted(torch.randperm(8, device="cuda").tolist()))


@case(["[3, 1, 2, 0]", "[4, 3]"])
def sort():
    print(device([4.0, 2.0, 3.0, 1.0]).sort().indices.tolist())
    print(device([1, 4, 3]).topk(2).values.tolist())


@case(["[4.0, 3.0]", "[300]"])
def svd():
    print([round(value, 3) for value in torch.linalg.svdvals(device([[4.0, 0.0], [0.0, 3.0]])).tolist()])
    print(list(torch.linalg.svd(torch.randn(300, 300).cuda())[1].shape))


@case(["True", "False"])
def equal():
    print(torch.equal(device([1, 2]), device([1, 2])))
    print(torch.allclose(device([1.0, 2.0]), device([1.0, 3.0])))


@case(["[7, 8, 9]", "[[7, 8, 9], [0, 0, 0]]"])
def views_and_writes():
    base = torch.zeros(2, 3, dtype=torch.long, device="cuda")
    base[0] = device([7, 8, 9])
    row = base[0]
    print(row.tolist())
    print(base.tolist())


@case(["[1, 3, 6]", "6"])
def cumulative():
    sums = device([1, 2, 3]).cumsum(0)
    print(sums.tolist())
    print(int(sums[-1]))


@case(["[1, 2, 3] True 2.5", "[7] [2, 3]"])
def made_on_the_device():
    """torch.tensor copies where no mode of PyTorch's sees it. Where it lies, others lay before."""
    for number in range(50):
        torch.full((3,), number, device="cuda")
    made = [torch.tensor(values, device="cuda") for values in ([1, 2, 3], True, 2.5)]
    print(made[0].tolist(), bool(made[1]), made[2].item())
    print(torch.as_tensor([7], device="cuda").tolist(), made[0][made[0] > torch.tensor(1, device="cuda")].tolist())


@case(["[5, 7, 9] 9", "[[0, 1], [2, 3]]"])
def written_in_parts():
    """Into new memory, as lengths are gathered."""
    lengths = torch.empty(3, dtype=torch.long, device="cuda")
    for number in range(3):
        lengths[number] = 5 + 2 * number
    print(lengths.tolist(), lengths.max().item())
    rows = lengths.new_empty(2, 2)
    rows[0], rows[1] = torch.arange(2, device="cuda"), torch.arange(2, 4, device="cuda")
    print(rows.tolist())


@case(["[0, 2, 5]"])
def threads():
    import threading
    found = []
    thread = threading.Thread(target=lambda: found.extend(device([1, 0, 1, 0, 0, 1]).nonzero().flatten().tolist()))
    thread.start()
    thread.join()
    print(found)


@case(["3", "12"])
def recycled():
    """Memory that had other values before."""
    for _ in range(100):
        torch.full((3,), 7, device="cuda")
    print(torch.ones(3, device="cuda").sum().int().item())
    print(int(torch.full((4,), 3, device="cuda").sum()))


@case(["ends"])
def searched():
    """A search by halves over numbers that nobody knows."""
    x = torch.randn(4096, 8).cuda() @ torch.randn(8, 64).cuda()
    low, high = x.min().item(), x.max().item()
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if (x > middle).float().mean().item() > 0.1 else (low, middle)
    print("ends")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in CASES:
        sys.exit(f"usage: value_cases.py {'|'.join(CASES)}")
    torch.manual_seed(0)
    CASES[sys.argv[1]][0]()
