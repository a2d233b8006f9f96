"""One run of a case: which, how, and what came out of it compared with the bare one."""

import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 600  # that a run may take

CASES = ("copies", "mlp", "gpt", "large", "convolutions", "graphs", "streams", "pinned", "pools", "brim", "processes", "snapshots",
         "threads", "sleeps", "vision", "quantized", "onnx")
# Cases that PyTorch alone does not run: the Python module that each needs.
NEEDS = {"vision": "torchvision", "quantized": "bitsandbytes", "onnx": "onnxruntime"}
NOT_OF_PYTORCH = ("onnx",)  # and so run once, not with each of its allocators
# What a case needs of the software driver.
DRIVER = {"large": {"STANDIN_MEMORY": "80GiB", "STANDIN_DATA": "none"}}
ALLOCATORS = {
    "cache": {},
    "none": {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
    "expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    "async": {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"},
}
BARE = "bare"
MODES = {
    BARE: None,
    "default": {},
    "grown": {"CUBFC_PREALLOCATE": "false"},
    "deferred": {"CUBFC_FREE": "deferred"},
    "vmm": {"CUBFC_ALLOCATOR": "vmm"},
    "cuda_async": {"CUBFC_ALLOCATOR": "cuda_async"},
    "platform": {"CUBFC_ALLOCATOR": "platform"},
    "ordered": {"CUBFC_STREAM_ORDERED": "arena"},
    "disabled": {"CUBFC_DISABLE": "true"},
    # Whatever the program does: it sleeps as often as it calls nothing for 5 ms.
    "sleep": {"CUBFC_SLEEP": "true", "CUBFC_SLEEP_AFTER": "5ms"},
}
QUICK = {"cases": ("copies", "gpt", "graphs", "brim", "onnx", "sleeps"), "allocators": ("cache", "none"),
         "modes": (BARE, "default", "vmm", "sleep")}

# Not from the caller's environment: it would change what is compared.
FOREIGN = ("CUBFC_", "STANDIN_", "XLA_", "TF_", "JAX_", "CUDA_", "PYTORCH_", "TORCH_", "LD_")

# What PyTorch cannot do bare: without its cache it allocates in the middle of a capture, which invalidates that; with the
# driver's pools it has no pools of its own and records no history.
CANNOT = {("graphs", "none"), ("pools", "none"), ("pools", "async"), ("snapshots", "async")}

# What the documents refuse: (case, allocator, mode), None for any, and where it stands.
REFUSED = (
    ("processes", None, "vmm", "memory that is mapped has no cudaIpcGetMemHandle"),
    ("processes", None, "sleep", "memory that is mapped has no cudaIpcGetMemHandle"),
    ("processes", None, "cuda_async", "a pool's memory has no cudaIpcGetMemHandle"),
)

Run = collections.namedtuple("Run", "case allocator mode")
Outcome = collections.namedtuple("Outcome", "status facts said peaks")
# Of the device's memory, in bytes: the software driver's figure, cubfc's (None where it takes no part), and how much of that
# the stand-ins had, which PyTorch does not count.
Peaks = collections.namedtuple("Peaks", "driver cubfc stand_ins")


def program_of(case):
    return HERE / ("onnxruntime_cases.py" if case in NOT_OF_PYTORCH else "pytorch_cases.py")


def plan(options, lacking=()):
    """Bare first. All modes with PyTorch's cache; with its other allocators those that serve them in another way. Without what
    needs one of these Python modules."""
    cases = options.case or (QUICK["cases"] if options.quick else CASES)
    cases = [case for case in cases if NEEDS.get(case) not in lacking]
    allocators = options.allocator or (QUICK["allocators"] if options.quick else list(ALLOCATORS))
    runs = []
    for allocator in allocators:
        some = (BARE, "default", "deferred", "vmm", "ordered", "sleep") if allocator != "cache" else tuple(MODES)
        modes = options.mode or (QUICK["modes"] if options.quick else some)
        runs += [Run(case, allocator, mode) for mode in dict.fromkeys((BARE, *modes)) for case in cases
                 if (case, allocator) not in CANNOT and (case not in NOT_OF_PYTORCH or allocator == "cache")]
    return runs


def variables(environment, allocator, mode, memory):
    mine = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    preloaded = environment.preloaded()
    if MODES[mode] is not None:
        mine |= MODES[mode]
        library = "libcubfc_sleep.so" if "CUBFC_SLEEP" in mine else "libcubfc.so"
        preloaded = [str(environment.build / "shim" / library), *preloaded]
    return mine | ALLOCATORS[allocator] | environment.variables() | {
        "LD_PRELOAD": ":".join(preloaded), "STANDIN_MEMORY": memory, "CUBFC_LOG_LEVEL": "error",
        "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}


class Runner:
    """Runs cases, several at once, until it is stopped."""

    def __init__(self, environment, memory):
        self._environment, self._memory = environment, memory
        self._lock, self._running, self._stopped = threading.Lock(), set(), False

    def run(self, which):
        """None once it is stopped."""
        command = [str(self._environment.python), str(program_of(which.case)), which.case]
        with tempfile.TemporaryDirectory(prefix="cubfc-frameworks-") as folder:
            environment = variables(self._environment, which.allocator, which.mode, self._memory) | DRIVER.get(which.case, {})
            environment |= {"STANDIN_REPORT": f"{folder}/driver-%p", "CUBFC_SUMMARY": f"{folder}/cubfc-%p.json"}
            return self._run(command, environment, folder)

    def _run(self, command, environment, folder):
        with self._lock:
            if self._stopped:
                return None
            # A session of its own: Ctrl-C must not look like a failure of the case, and who ends it ends its children.
            child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                     errors="replace", start_new_session=True)
            self._running.add(child)
        try:
            out, said = child.communicate(timeout=SECONDS)
            outcome = Outcome(child.returncode, out.splitlines(), said, _peaks(folder, child.pid))
        except subprocess.TimeoutExpired:
            _kill(child)
            child.communicate()
            outcome = Outcome("timed out", [], "", None)
        with self._lock:
            self._running.discard(child)
            return None if self._stopped else outcome

    def stop(self):
        with self._lock:
            self._stopped = True
            for child in self._running:
                _kill(child)


def _peaks(folder, pid):
    """None where the process did not get to write them."""
    driver, cubfc = pathlib.Path(folder, f"driver-{pid}"), pathlib.Path(folder, f"cubfc-{pid}.json")
    if not driver.exists():
        return None
    device = json.loads(driver.read_text(encoding="utf-8"))["peak_bytes"][0]
    if not cubfc.exists():
        return Peaks(device, None, 0)
    devices = json.loads(cubfc.read_text(encoding="utf-8"))["devices"]
    callers = devices[0]["callers"] if devices else []
    stand_ins = [caller["at_peak"] for caller in callers if re.match(r"lib(cu|nv)\w+\.so", caller["name"])]
    return Peaks(device, sum(caller["at_peak"] for caller in callers), sum(stand_ins))


def _kill(child):
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def refusal(which):
    for case, allocator, mode, why in REFUSED:
        if case == which.case and allocator in (None, which.allocator) and mode == which.mode:
            return why
    return None


# Where what cubfc takes of the driver is what the program asks for.
PASSED_ON = ("platform", "disabled")
MANAGED = ("quantized",)  # cases that take managed memory, too, which the driver counts and PyTorch does not


def wrong_peak(which, outcomes):
    """None, or how the most memory of the device that was used at once is not what PyTorch says that it reserved at most. With
    PyTorch's cache it is the same, to the byte, but for what the stand-ins have."""
    outcome = outcomes[which]
    reserved = next((json.loads(line)["most_reserved"] for line in outcome.facts if "most_reserved" in line), None)
    # Of a tensor that another process made, that process has the memory.
    if reserved is None or outcome.peaks is None or which.case == "processes" or which.allocator != "cache":
        return None
    driver, cubfc, stand_ins = outcome.peaks
    if cubfc is not None and cubfc - stand_ins != reserved:
        return f"{cubfc:,} bytes at most by cubfc, {stand_ins:,} of them of stand-ins; {reserved:,} by PyTorch"
    like = outcomes.get(which._replace(mode="platform"))  # the stand-ins have the same bare
    if which.mode in (BARE, *PASSED_ON) and which.case not in MANAGED and like and like.peaks and driver - like.peaks.stand_ins != reserved:
        return f"{driver:,} bytes at most by the driver, {like.peaks.stand_ins:,} of them of stand-ins; {reserved:,} by PyTorch"
    return None


def report(outcomes):
    """Prints the table and what differs. The exit status. A run without its bare one is not compared."""
    wrong = {}  # with what is wrong with the peak, if it is
    table = collections.defaultdict(dict)
    outcomes = {which: outcome for which, outcome in outcomes.items() if which._replace(mode=BARE) in outcomes}
    for which, outcome in outcomes.items():
        bare = outcomes[which._replace(mode=BARE)]
        if which.mode == BARE:
            word = "runs" if outcome.status == 0 else "FAILS"
        elif (outcome.status, outcome.facts) == (bare.status, bare.facts):
            word = "equal"
        else:
            word = "refused" if refusal(which) else "DIFFERS"
        peak = None if word == "refused" else wrong_peak(which, outcomes)
        if peak:
            word = "DIFFERS"
        if word.isupper():
            wrong[which] = peak
        table[which.allocator, which.case][which.mode] = word
    modes = list(dict.fromkeys(which.mode for which in outcomes))
    print(f"{'allocator':<11}{'case':<14}" + "".join(f"{mode:<12}" for mode in modes).rstrip())
    for (allocator, case), words in table.items():
        print(f"{allocator:<11}{case:<14}" + "".join(f"{words.get(mode, ''):<12}" for mode in modes).rstrip())
    for which, peak in wrong.items():
        explain(which, outcomes[which], outcomes[which._replace(mode=BARE)])
        if peak:
            print(f"  {peak}")
    count = len(outcomes)
    print(f"{count} runs, {len(wrong)} not as they must be" if wrong else f"{count} runs, all equal but for what is refused")
    return 1 if wrong else 0


def explain(which, outcome, bare):
    print(f"\n{which.case}, {which.allocator}, {which.mode}: exit status {outcome.status}, bare {bare.status}")
    for ours, theirs in zip(outcome.facts, bare.facts):
        if ours != theirs:
            print(f"  here: {ours[:600]}\n  bare: {theirs[:600]}")
    for more in outcome.facts[len(bare.facts):]:
        print(f"  only here: {more[:600]}")
    for less in bare.facts[len(outcome.facts):]:
        print(f"  only bare: {less[:600]}")
    if outcome.status != 0 and outcome.said:
        print("  " + "\n  ".join(outcome.said.strip().splitlines()[-6:]))
