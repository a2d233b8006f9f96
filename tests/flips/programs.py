"""The programs that run under each flip, and how each is judged."""

import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import tempfile

PATIENCE_SECONDS = 45  # no program takes one; beside a busy machine some

PROFILES = pathlib.Path(__file__).resolve().parents[1] / "standin/profiles"
LIMIT_MIB = 900
LIMIT = {"CUBFC_MEM_LIMIT": f"{LIMIT_MIB}MiB"}
GROWN = {"CUBFC_PREALLOCATE": "false"}
DEFERRED = {"CUBFC_FREE": "deferred"}
MAPPED = {"CUBFC_ALLOCATOR": "vmm"}
POOL = {"CUBFC_ALLOCATOR": "cuda_async"}
MODES = {
    "sync, preallocated": {"CUBFC_FREE": "sync"},
    "deferred, grown, limited": DEFERRED | GROWN | LIMIT,
    "vmm, preallocated": MAPPED,
    "vmm, deferred, grown, limited": MAPPED | DEFERRED | GROWN | LIMIT,
    "cuda_async, limited": POOL | LIMIT,
    "cuda_async, deferred": POOL | DEFERRED,
    "stream-ordered, deferred": DEFERRED | {"CUBFC_STREAM_ORDERED": "arena"},
    "shared by the driver": {"CUBFC_IPC": "driver"},
}
BARE = "bare"
# What a line says that is not compared: how long it took; and at which of its steps a random program was refused first,
# since of two blocks that are freed alike only one may be the driver's.
NOT_COMPARED = re.compile(r", \d+\.\d+ s\b|(?<=: )step \d+, ")


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    command: tuple
    machine: tuple = (("STANDIN_DEVICES", "2"), ("STANDIN_MEMORY", "1GiB"))
    at_once: int = 1  # so many processes of it, on one device
    settings: tuple = ()  # of cubfc, in every mode
    settled: frozenset = frozenset()  # entries that its machine answers, which are not flipped under it
    told: bool = True  # what it prints counts, and not only how it ends and what it takes


@dataclasses.dataclass(frozen=True)
class Outcome:
    end: str  # "exit 0", "signal SIGSEGV", "does not end"
    lines: tuple
    asked: frozenset = frozenset()
    peak: int = 0  # bytes, the most of any device


def programs_of(build):
    """All of them; `build` is the folder of a build."""
    conformance = str(build / "tests/conformance/conformance")
    listed = subprocess.run([conformance, "--list"], env=driver_of(build), capture_output=True, text=True, check=True)
    names = [line for line in listed.stdout.splitlines() if line and not line.startswith(" ")]
    programs = [Program(f"promise {name}", (conformance, "--via=dlsym", name)) for name in names]
    random = str(build / "tests/random/random_programs")
    small = (("STANDIN_DEVICES", "2"), ("STANDIN_MEMORY", "256MiB"), ("STANDIN_WORK_DELAY", "20us"))
    limited = (("CUBFC_PREALLOCATE_LIMIT", "32MiB"),)
    for seed in (1, 4, 7, 10):
        programs.append(Program(f"random programs {seed}", (random, "--seed", str(seed), "--programs", "3", "--no-shrink",
                                                            "--patience", str(PATIENCE_SECONDS)), small, 1, limited))
    here = build / "tests/programs"
    one = (("STANDIN_DEVICES", "1"), ("STANDIN_MEMORY", "1GiB"))
    to_the_byte = (*one, ("STANDIN_PROFILE", str(PROFILES / "fine-accounting.json")))
    programs += [
        Program("contexts", (str(here / "program_contexts"), "--via=dlsym")),
        Program("two devices that reach each other", (str(here / "program_two_devices"),), small),
        Program("two devices that do not", (str(here / "program_two_devices"),), (*small, ("STANDIN_PEERS", "none"))),
        Program("misuse", (str(here / "program_misuse"), "--via=dlsym")),
        Program("sharing between processes", (str(here / "program_sharing"),), one),
        Program("threads", (str(here / "program_threads"), "4", "40"), one),
        Program("threads of three processes in a group", (str(here / "program_threads"), "3", "30"), one, 3,
                (("CUBFC_GROUP", "flips"), ("CUBFC_GROUP_LIMIT", f"{LIMIT_MIB}MiB"))),
        # What each gets of the limit depends on who asks first.
        Program("three processes that fill a group", (str(here / "program_device_edge"), "ring", "90", "20"),
                to_the_byte, 3,
                (("CUBFC_GROUP", "flips"), ("CUBFC_GROUP_LIMIT", f"{LIMIT_MIB}MiB")), frozenset({"size.accounting"}),
                told=False),
        Program("six processes of a group", (str(here / "program_threads"), "2", "15"), one, 6,
                (("CUBFC_GROUP", "flips"), ("CUBFC_GROUP_LIMIT", f"{LIMIT_MIB}MiB"))),
        Program("threads of three processes", (str(here / "program_threads"), "3", "30"), one, 3),
        Program("all that is free", (str(here / "program_memory_info"), "--percent", "90", "--step", "4194304"), one),
        Program("all that is free of a driver's limit",
                (str(here / "program_memory_info"), "--percent", "90", "--step", "4194304"),
                (("STANDIN_DEVICES", "1"), ("STANDIN_MEMORY", "1GiB"), ("STANDIN_LIMIT", "256MiB"))),
    ]
    return programs


def driver_of(build):
    """The environment of a program on the software driver; nothing of the caller's gets in."""
    return {"PATH": os.environ.get("PATH", ""), "LD_LIBRARY_PATH": str(build / "tests/standin/lib")}


class Machine:
    """Runs programs on the software driver."""

    def __init__(self, build, library):
        self.build = build
        self.library = library

    def run(self, program, mode, answers=""):
        """What the program does in the mode, on a driver that answers so (STANDIN_ANSWERS)."""
        with tempfile.TemporaryDirectory(prefix="cubfc-flips-") as folder:
            environment = driver_of(self.build) | dict(program.machine) | {
                "STANDIN_ASKED": f"{folder}/asked", "STANDIN_REPORT": f"{folder}/report-%p.json",
                "XDG_RUNTIME_DIR": folder, "TMPDIR": folder, "CUBFC_LOG_LEVEL": "off"}
            if answers:
                environment["STANDIN_ANSWERS"] = answers
            if program.at_once > 1:
                environment["STANDIN_SHARED"] = f"{folder}/shared"
            if mode != BARE:
                environment |= dict(program.settings) | MODES[mode] | {"LD_PRELOAD": str(self.library)}
            running = [_start(program.command, environment, folder) for _ in range(program.at_once)]
            ends = [_end_of(each) for each in running]
            lines = tuple(line for _, out in ends for line in out)
            worst = next((end for end, _ in ends if end != "exit 0"), "exit 0")
            return Outcome(worst, lines, _lines_of(f"{folder}/asked"), _peak_of(folder, program))


def _start(command, environment, folder):
    return subprocess.Popen(command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True, errors="replace", start_new_session=True)


def _end_of(process):
    """How it ended, and its lines. One that does not end is ended, with its children."""
    try:
        out, _ = process.communicate(timeout=PATIENCE_SECONDS)
        status = process.returncode
        end = f"exit {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, _ = process.communicate()
        end = "does not end"
    return end, tuple(NOT_COMPARED.sub("", line) for line in out.splitlines())


def _lines_of(path):
    try:
        return frozenset(pathlib.Path(path).read_text(encoding="utf-8").split())
    except OSError:
        return frozenset()


def _peak_of(folder, program):
    """Bytes of a device that were in use at one time: where it counts to the byte, as it says of all processes together; else,
    since it counts in units, the most of each process's own, together."""
    field = "device_peak_bytes" if "size.accounting" in program.settled else "peak_bytes"
    peaks = [0]
    for report in pathlib.Path(folder).glob("report-*.json"):
        found = re.search(rf'"{field}": \[([\d\s,]*)\]', report.read_text(encoding="utf-8"))
        peaks.append(max((int(number) for number in found.group(1).split(",") if number.strip()), default=0) if found else 0)
    return max(peaks) if field.startswith("device") else sum(peaks)


def _is_limited(mode, program):
    return "limited" in mode or any(name == "CUBFC_GROUP_LIMIT" for name, _ in program.settings)


def _answer_of(line):
    """What the line says that the driver answered, if it is an answer."""
    label, _, answer = line.rpartition(": ")
    return label, answer if answer.startswith("CUDA_") else None


def _is_own_refusal(line, flipped, usual):
    """cubfc asks of what is nobody's in words of its own, and so may get another refusal than the program would."""
    label, answer = _answer_of(line)
    usual_answers = {_answer_of(each) for each in usual}
    return answer == flipped and answer not in (None, "CUDA_SUCCESS") and any(
        (label, each) in usual_answers for _, each in usual_answers if each not in (None, "CUDA_SUCCESS"))


def what_is_wrong(program, mode, seen, bare, usual, flipped):
    """Of what was seen under cubfc on a flipped driver; None when all is well. `bare` is the same driver without cubfc,
    `usual` what the program does on the driver as it is, by mode, and `flipped` the name of the result that is answered."""
    as_usual = usual[mode]
    if bare.end.startswith("signal") or bare.end == "does not end":
        return None  # the program cannot live with that driver
    if seen.end.startswith("signal") or seen.end == "does not end":
        return seen.end
    if _is_limited(mode, program) and seen.peak > LIMIT_MIB << 20:
        return f"{seen.peak / 2**20:.0f} MiB under a limit of {LIMIT_MIB} MiB"
    if not program.told:
        return None if seen.end in (bare.end, as_usual.end) else f"{seen.end}, and without cubfc {bare.end}"
    usual_lines = {line for each in usual.values() for line in each.lines}
    known = usual_lines.union(bare.lines)
    of_mode = {*as_usual.lines, *usual[BARE].lines}
    refused_otherwise = False
    for line in seen.lines:
        if {line, line.replace(": at once", ": after a wait")} & known:
            continue
        if not _is_own_refusal(line, flipped, of_mode):
            return f"'{line}' is neither this driver's answer nor a usual one"
        refused_otherwise = True  # with another error than the program counts on
    if refused_otherwise:
        return None
    if 3 * len(seen.lines) < 2 * min(len(bare.lines), len(as_usual.lines)):
        return f"it says less: {' | '.join(seen.lines[-3:])}"
    if seen.end not in (bare.end, as_usual.end):
        return f"{seen.end}, and without cubfc {bare.end}: {' | '.join(seen.lines[-2:])}"
    return None
