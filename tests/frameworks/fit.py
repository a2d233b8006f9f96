"""`cubfc fit` with the real PyTorch: small programs that read values back end, and print what the CPU would (tests/fit/value_cases.py);
and what is asked for is the same, event by event, whether values are followed or not."""

import ast
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import tempfile

import running

CASES = running.HERE.parent / "fit/value_cases.py"
FOLLOWED = ("mlp", "gpt", "convolutions", "graphs")  # of pytorch_cases.py
SECONDS = 300

# Runs cases of pytorch_cases.py, and prints what PyTorch allocated and freed.
EVENTS = """
import json, sys, torch
sys.path.insert(0, sys.argv[1])
import pytorch_cases
torch.manual_seed(0)
torch.cuda.memory._record_memory_history(max_entries=1000000, stacks="python")
pytorch_cases.CASES[sys.argv[2]]()
events = torch.cuda.memory._snapshot()["device_traces"][0]
print(json.dumps([(event["action"], event["size"]) for event in events]))
"""

# Loops that wait for values which only a GPU computes; the last one for one that no answer is.
WAITS = """
import torch
x = torch.randn(1000, 1000, device="cuda")
while (x @ x).norm() > 1e-6:
    pass
while not bool((x @ x).mean() < -3):
    pass
while (x @ x).argmax().item() != 3:
    pass
print("after", flush=True)
more = torch.empty(200 << 20, device="cuda")
while (x @ x).argmax().item() != 77:
    pass
print("never")
"""

# Convolutions, for cuDNN's part.
CONVOLUTIONS = """
import sys, torch
net = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(64, 64, 3, padding=1)).cuda()
x = torch.randn(int(sys.argv[1]), 3, 512, 512, device="cuda")
torch.cuda.memory._record_memory_history(max_entries=10000)
for _ in range(3):
    net(x).sum().backward()
if len(sys.argv) > 2:
    torch.cuda.memory._dump_snapshot(sys.argv[2])
"""

# Two processes that ask for NCCL; prints what only true numbers give.
RANKS = """
import os, torch, torch.distributed as dist
from torch.distributed.fsdp import fully_shard
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
net = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(4)]).cuda()
for layer in net:
    fully_shard(layer)
fully_shard(net)
optimizer = torch.optim.AdamW(net.parameters())
for _ in range(3):
    net(torch.randn(64, 2048, device="cuda")).sum().backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
names = [None, None]
dist.all_gather_object(names, f"rank {rank}")
mean = torch.tensor([float(rank)], device="cuda")
dist.all_reduce(mean, op=dist.ReduceOp.AVG)
parts = torch.empty(4, device="cuda")
dist.reduce_scatter_tensor(parts, torch.ones(8, device="cuda"))
if rank == 0:
    print(names, mean.item(), flush=True)
dist.destroy_process_group()
"""

# A model of Hugging Face's, from a folder: with weights, or with a configuration alone.
HUGGING_FACE = """
import sys, torch, transformers
if len(sys.argv) > 2:
    config = transformers.LlamaConfig(hidden_size=512, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=8,
                                      num_key_value_heads=4, vocab_size=8192, tie_word_embeddings=True, dtype=torch.bfloat16)
    config.architectures = ["LlamaForCausalLM"]
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(sys.argv[1])
    config.save_pretrained(sys.argv[2])
    sys.exit()
model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype="auto", device_map="cuda")
print(model.dtype, model.num_parameters(), torch.cuda.memory_allocated())
print(model.generate(torch.ones(1, 32, dtype=torch.long, device="cuda"), max_new_tokens=8, do_sample=False).shape)
"""


def expected():
    """{case: lines}, read without PyTorch."""
    text = CASES.read_text(encoding="utf-8")
    return {name: ast.literal_eval(lines) for lines, name in re.findall(r"^@case\((.*)\)\ndef (\w+)\(", text, re.MULTILINE)}


def _fit(environment, *words, options=("--gpu", "H100", "--steps", "0", "--cudnn", "0")):
    """What the program printed, what fit told as JSON, and what it said on stderr."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(running.FOREIGN)}
    done = subprocess.run([environment.build / "cli/cubfc", "fit", *options, "--json", "--show-output", "--",
                           environment.python, *words], env=own | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
                          capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False)
    if done.returncode not in (0, 3):
        return done.stdout.splitlines(), None, done.stderr
    printed, brace, told = ("\n" + done.stdout).rpartition("\n{\n")
    return printed.splitlines()[1:], json.loads(brace + told), done.stderr


def _problem_of(environment, name, lines):
    printed, told, said = _fit(environment, CASES, name)
    if told is None:
        return f"it failed: {said.strip()[-600:]}"
    if printed != lines:
        return f"it printed {printed} instead of {lines}"
    notes = [note for run in told["runs"] for process in run["processes"] for note in process["guesses"]]
    wrong = [note for note in notes if note["kind"] in ("not followed", "shape")]
    return f"not followed: {wrong[0]['what']}: {wrong[0]['detail']}" if wrong else None


def _difference_of(environment, case):
    bare = subprocess.run([environment.python, "-c", EVENTS, running.HERE, case], text=True, capture_output=True, check=False,
                          env=running.variables(environment, "cache", running.BARE, "80GiB") | {"STANDIN_DATA": "none"})
    if bare.returncode != 0:
        return f"it fails bare: {bare.stderr.strip()[-600:]}"
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "events.py")
        program.write_text(EVENTS, encoding="utf-8")
        printed, told, said = _fit(environment, program, running.HERE, case)
    if told is None:
        return f"it failed: {said.strip()[-600:]}"
    events, theirs = json.loads(printed[-1]), json.loads(bare.stdout.splitlines()[-1])
    if events == theirs:
        return None
    first = next((at for at, (one, other) in enumerate(zip(events, theirs)) if one != other), min(len(events), len(theirs)))
    return f"{len(events)} events for {len(theirs)}, the first that differs is number {first}"


def _wait_problem(environment):
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "waits.py")
        program.write_text(WAITS, encoding="utf-8")
        printed, told, said = _fit(environment, program, options=("--gpu", "H100"))
    if told is None:
        return f"it failed: {said.strip()[-600:]}"
    run = told["runs"][0]
    fits = told["gpus"][0]["pytorch_cache"]
    found = printed, run["processes"][0]["ended"], run["allocated_bytes"] > 800 << 20, fits["fits"], fits["perhaps"]
    return None if found == (["after"], "waits", True, False, True) else f"found {found}"


def _convolution_problem(environment):
    """A share that a recording was made with is learnt from it, and a search finds the last size that fits."""
    with tempfile.TemporaryDirectory() as folder:
        program, snapshot = pathlib.Path(folder, "convolutions.py"), pathlib.Path(folder, "snapshot.pickle")
        program.write_text(CONVOLUTIONS, encoding="utf-8")
        gpu = ("--gpu", "8GiB")
        _, known, said = _fit(environment, program, "8", snapshot, options=(*gpu, "--cudnn", "0.4"))
        _, learnt, said_2 = _fit(environment, program, "8", options=(*gpu, "--learn", snapshot))
        _, ranged, said_3 = _fit(environment, program, "8", options=gpu)
        _, searched, said_4 = _fit(environment, program, "{batch}", options=(*gpu, "--search", "batch=1..64"))
        if None in (known, learnt, ranged, searched):
            return f"it failed: {(said + said_2 + said_3 + said_4).strip()[-600:]}"
        largest, after = searched["gpus"][0]["largest"]["value"], searched["gpus"][0]["next"]["value"]
        fits = [_fit(environment, program, str(batch), options=gpu)[1]["gpus"][0]["pytorch_cache"]["fits"] for batch in (largest, after)]
    known, learnt, ranged = (told["runs"][0] for told in (known, learnt, ranged))
    if abs(learnt["allocated_bytes"] / known["allocated_bytes"] - 1) > 0.002:
        return f"{learnt['allocated_bytes']} bytes were learnt, {known['allocated_bytes']} recorded"
    if not ranged["allocated_bytes"] < known["allocated_bytes"] < ranged["with_convolutions"]["allocated_bytes"]:
        return f"{known['allocated_bytes']} bytes are not in the range"
    return None if after == largest + 1 and fits == [True, False] else f"{largest} is largest, then {after}: {fits}"


def _rank_problem(environment):
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "ranks.py")
        program.write_text(RANKS, encoding="utf-8")
        words = ("-m", "torch.distributed.run", "--nproc-per-node", "2", program)
        printed, told, said = _fit(environment, *words, options=("--gpu", "H100", "--gpus", "2", "--steps", "0"))
    if told is None:
        return f"it failed: {said.strip()[-600:]}"
    run = told["runs"][0]
    found = [line for line in printed if line.startswith("[")], run["nccl_bytes"][0] > 0
    return None if found == (["['rank 0', 'rank 1'] 0.5"], True) else f"found {found}"


def _weights_problem(environment):
    if subprocess.run([environment.python, "-c", "import transformers, accelerate"], capture_output=True, check=False).returncode != 0:
        return None
    with tempfile.TemporaryDirectory() as folder:
        program, whole, bare = (pathlib.Path(folder, name) for name in ("model.py", "whole", "bare"))
        program.write_text(HUGGING_FACE, encoding="utf-8")
        subprocess.run([environment.python, program, whole, bare], check=True, capture_output=True)
        if list(bare.glob("*.safetensors")):
            return "the folder without weights has some"
        loaded, told, said = _fit(environment, program, whole)
        made_up, told_2, said_2 = _fit(environment, program, bare, options=("--gpu", "H100", "--steps", "0", "--random-weights"))
    if told is None or told_2 is None:
        return f"it failed: {(said + said_2).strip()[-600:]}"
    figures = [[run[name] for name in ("allocated_bytes", "reserved_bytes", "device_bytes")] for run in told["runs"] + told_2["runs"]]
    return None if loaded == made_up and figures[0] == figures[1] else f"{loaded} {figures[0]} with weights, {made_up} {figures[1]} without"


def report(environment):
    """Prints what is wrong. The exit status."""
    work = {f"values: {name}": (_problem_of, name, lines) for name, lines in expected().items()}
    work |= {f"events: {case}": (_difference_of, case) for case in FOLLOWED}
    work |= {"loops that wait": (_wait_problem,), "convolutions": (_convolution_problem,), "two ranks": (_rank_problem,),
             "random weights": (_weights_problem,)}
    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = {name: pool.submit(function, environment, *arguments) for name, (function, *arguments) in work.items()}
        for name, result in results.items():
            try:
                problem = result.result()
            except subprocess.TimeoutExpired:
                problem = "it did not end"
            wrong += problem is not None
            if problem:
                print(f"{name}: {problem}")
    print(f"fit: {len(work)} programs, {wrong} not as they must be" if wrong else f"fit: {len(work)} programs, all as they must be")
    return 1 if wrong else 0

