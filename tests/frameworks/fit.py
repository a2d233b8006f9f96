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


def expected():
    """{case: lines}, read without PyTorch."""
    text = CASES.read_text(encoding="utf-8")
    return {name: ast.literal_eval(lines) for lines, name in re.findall(r"^@case\((.*)\)\ndef (\w+)\(", text, re.MULTILINE)}


def _fit(environment, *words):
    """What the program printed, what fit told as JSON, and what it said on stderr."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(running.FOREIGN)}
    done = subprocess.run([environment.build / "cli/cubfc", "fit", "--gpu", "H100", "--steps", "0", "--json", "--show-output", "--",
                           environment.python, *words], env=own | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
                          capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False)
    if done.returncode != 0:
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


def report(environment):
    """Prints what is wrong. The exit status."""
    work = {f"values: {name}": (_problem_of, name, lines) for name, lines in expected().items()}
    work |= {f"events: {case}": (_difference_of, case) for case in FOLLOWED}
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

