"""What is run on: the files of the build, the driver that is used, and what the environment of a program
is, with and without cubfc."""

import ctypes
import datetime
import glob
import os
import pathlib
import platform
import subprocess
import sysconfig
import tempfile

from running import Runs

SOURCES = pathlib.Path(__file__).resolve().parents[3]

LIBRARIES = ("cublas", "cufft", "cusolver", "cusparse", "nccl")  # of which there is a program each
# What a run needs of a build folder.
FILES = (
    "shim/libcubfc.so", "tests/gpu/probe", "tests/gpu/witness/libcubfc_witness.so",
    *(f"tests/gpu/programs/library_{name}" for name in LIBRARIES),
    "tests/gpu/programs/thrust_cub_static", "tests/gpu/programs/thrust_cub_shared", "tests/conformance/conformance",
    "tests/conformance/conformance_test", "tests/random/random_programs", "tests/bench/device_bench",
    "tests/programs/play_trace",
    "tests/programs/program_contexts", "tests/programs/program_misuse", "tests/programs/program_threads",
    "tests/programs/program_vector_add")
SOFTWARE_DRIVER = "tests/standin/lib"


TRACES = "traces"


def traces(build):
    """The recorded allocations to play: those of CUBFC_TRACES, else what was packed, else what lies beside the
    project. None is no error."""
    for folder in (os.environ.get("CUBFC_TRACES"), build / TRACES, SOURCES.parent / "shared/traces"):
        if folder and os.path.isdir(folder):
            return sorted(glob.glob(os.path.join(folder, "*.csv")))
    return []


class Machine:
    """Its `run` is the way to start a program."""

    def __init__(self, build, software, seconds=None):
        self.runs = Runs(seconds)
        self.run = self.runs.run
        self.build = pathlib.Path(build).resolve()
        self.software = software
        self.traces = traces(self.build)
        self.scratch = tempfile.mkdtemp(prefix="cubfc-gpu-check-")
        packages = sysconfig.get_paths()["purelib"]
        self.libraries = [
            folder
            for pattern in (f"{packages}/nvidia/*/lib", "/usr/local/cuda/lib64", "/usr/local/cuda/extras/CUPTI/lib64")
            for folder in sorted(glob.glob(pattern))]

    def file(self, path):
        """A file of the build; None if it was not built."""
        file = self.build / path
        return str(file) if file.exists() else None

    def environment(self, settings=None):
        """For a program without cubfc: nothing of the caller's that would change what it does."""
        environment = {
            name: value for name, value in os.environ.items()
            if name != "LD_PRELOAD" and not name.startswith(("CUBFC_", "XLA_", "TF_", "PYTORCH_", "STANDIN_"))}
        # Several run at once, and a processor has better things to do than to wait for itself.
        environment["OMP_NUM_THREADS"] = "2"
        environment["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        # What is compiled for the GPU is compiled once, not by each run.
        for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUPY_CACHE_DIR", "NUMBA_CACHE_DIR"):
            environment[name] = os.path.join(self.scratch, name)
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        environment["NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS"] = "0"
        # Behind what the caller says. In front, the software driver hides the machine's.
        paths = [os.environ.get("LD_LIBRARY_PATH", ""), *self.libraries]
        if self.software:
            paths.insert(0, str(self.build / SOFTWARE_DRIVER))
            environment["STANDIN_MEMORY"] = "4GiB"
        environment["LD_LIBRARY_PATH"] = ":".join(filter(None, paths))
        return environment | (settings or {})

    def preloaded(self, settings=None):
        library = str(self.build / "shim/libcubfc.so")
        return self.environment({"LD_PRELOAD": library, "CUBFC_SHOW_STATS": "1"} | (settings or {}))

    def describe(self):
        """GPU, driver, CUDA, processor, commit and date, as the results keep them."""
        return {
            "gpu": "none: the software driver of the tests" if self.software else _gpu("name"),
            "driver": None if self.software else _gpu("driver_version"),
            "cuda": _cuda_version(self),
            "processor": _processor(),
            "system": platform.platform(),
            "commit": _commit_of(self.build),
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        }


def has_gpu():
    return _gpu("name") is not None


def keep_awake():
    """Where nothing holds the device, the driver puts it to sleep between two programs, and wakes it for a
    second or more. No context is made."""
    try:
        ctypes.CDLL("libcuda.so.1").cuInit(0)
    except OSError:
        pass


def _line(command):
    """The first line that a command prints; None when it cannot."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=SOURCES)
        return done.stdout.splitlines()[0].strip()
    except (OSError, subprocess.SubprocessError, IndexError):
        return None


def _gpu(field):
    return _line(["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader"])


def _cuda_version(machine):
    """That the driver supports, as it says itself."""
    library = str(machine.build / SOFTWARE_DRIVER / "libcuda.so.1") if machine.software else "libcuda.so.1"
    version = ctypes.c_int()
    try:
        if ctypes.CDLL(library).cuDriverGetVersion(ctypes.byref(version)) != 0:
            return None
    except OSError:
        return None
    return f"{version.value // 1000}.{version.value % 1000 // 10}"


COMMIT_FILE = "COMMIT"  # in a folder that was packed


def commit():
    """Of the sources here; None where git does not know."""
    found = _line(["git", "rev-parse", "--short", "HEAD"])
    if found is None:
        return None
    changed = _line(["git", "status", "--porcelain", "--untracked-files=no"])
    return found + (" and changes" if changed else "")


def _commit_of(build):
    try:
        return (build / COMMIT_FILE).read_text(encoding="utf-8").strip()
    except OSError:
        return commit()


def _processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return f"{os.cpu_count()} x {line.split(':', 1)[1].strip()}"
    return platform.machine()
