"""cubfc from inside a Python program: what it uses of each GPU, memory given back, and starting again under the library.

A program needs none of this to run under cubfc: `cubfc run -- python3 train.py` is enough. Nothing here is needed from
PyTorch, JAX or CuPy, and nothing touches CUDA. Every function may be called from any thread.
"""
from __future__ import annotations

import ctypes
import errno
import importlib.metadata
import json
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
from typing import Any, Iterator, Optional, Union

__all__ = ["apply", "environment", "flush", "is_active", "library", "limit", "stats", "trim"]

# The value of an option: mem_limit="20GiB", trace_stacks=32, preallocate=False.
_Value = Union[str, int, float, bool]

_TRIM_PREALLOCATED = 1


def __getattr__(name: str) -> str:
    """The version, of which only a package that was installed knows."""
    if name == "__version__":
        return importlib.metadata.version("cubfc")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def is_active() -> bool:
    """Whether libcubfc.so is loaded into this process. (With CUBFC_DISABLE=1 it is, and does nothing.)"""
    return _function("cubfc_dump") is not None


def stats(device: Optional[int] = None) -> Optional[dict[str, Any]]:
    """What this process has of each GPU, in bytes: the object that CUBFC_SUMMARY writes at exit.

    With a device, as CUDA counts them, only what it has of that one: `stats(0)["bytes_in_use"]`. None where cubfc is not
    loaded, or where the process has not used CUDA, or not that device, yet.
    """
    dump = _function("cubfc_dump")
    if dump is None:
        return None
    dump.restype = ctypes.c_ulonglong
    dump.argtypes = [ctypes.c_char_p, ctypes.c_ulonglong]
    room, length = 0, dump(None, 0)
    while length >= room:  # the text may have grown meanwhile
        if length == 0:
            return None
        room = length + 1024
        text = ctypes.create_string_buffer(room)
        length = dump(text, room)
    everything: dict[str, Any] = json.loads(text.value)
    if device is None:
        return everything
    return next((each for each in everything["devices"] if each["number"] == device), None)


def trim(preallocated: bool = False) -> int:
    """Gives memory that the program does not use back to the GPUs, and returns how many bytes that were.

    preallocated: what was preallocated, too. What a framework keeps in a cache of its own is in use to cubfc: call
    torch.cuda.empty_cache() or cupy.get_default_memory_pool().free_all_blocks() before. 0 where cubfc is not loaded.
    """
    function = _function("cubfc_trim")
    if function is None:
        return 0
    function.restype = ctypes.c_ulonglong
    function.argtypes = [ctypes.c_uint]
    return int(function(_TRIM_PREALLOCATED if preallocated else 0))


def flush() -> bool:
    """Writes what has been recorded so far to the file of CUBFC_TRACE; whether anything is recorded.

    For a process that is about to be killed, or to call os._exit(), as workers of multiprocessing do.
    """
    function = _function("cubfc_flush")
    return function is not None and bool(function())


def limit(size: str) -> None:
    """Sets this process's limit on each GPU, in the place of CUBFC_MEM_LIMIT: "20GiB", "25%", "0=8GiB,1=25%".

    For a process that was started under cubfc before its limit was known, such as a worker that gets its task later. To be called
    before anything uses CUDA. What is enforced, or is a group's, holds beside it: the least counts.

    Raises ValueError for what is no limit, RuntimeError where it is too late, because CUDA has been called, or where the process is
    not under cubfc (or CUBFC_DISABLE is set).
    """
    function = _function("cubfc_limit")
    if function is None:
        raise RuntimeError("cubfc.limit: this process is not under cubfc, so nothing can limit it; `cubfc run -- PROGRAM` starts it so")
    _output([*_under_cubfc({"mem_limit": size}), "true"])
    function.restype = ctypes.c_int
    function.argtypes = [ctypes.c_char_p]
    error = function(os.fsencode(size))
    if error == errno.EINVAL:
        raise ValueError(f"cubfc.limit: {size!r} is no limit")
    if error == errno.EBUSY:
        raise RuntimeError("cubfc.limit: it is too late, CUDA has been called: call it before anything uses the GPU")
    if error != 0:
        raise RuntimeError(f"cubfc.limit: {os.strerror(error)}")


def apply(**options: _Value) -> None:
    """Executes this program again, from its beginning, under cubfc; returns where it runs under cubfc already.

    To be called first of all: `import cubfc; cubfc.apply(mem_fraction=0.5)`. What came before it runs twice. Options are
    those of `cubfc run`, with underscores: mem_limit="20GiB", free="deferred", preallocate=False. What the environment
    sets otherwise stays in force.

    Raises ValueError for an option or a value that cannot be used, RuntimeError where it is too late, because CUDA has
    started, or where the program cannot be executed again: in a notebook, in an interpreter that reads a terminal or a pipe.
    """
    if is_active():
        return
    command = _under_cubfc(options)
    _output([*command, "true"])
    obstacle = _why_not_again()
    if obstacle:
        raise RuntimeError(f"cubfc.apply: {obstacle}; `cubfc run -- PROGRAM` starts a program under cubfc")
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os.execv(command[0], [*command, sys.executable, *_original_words()[1:]])


def environment(**options: _Value) -> dict[str, str]:
    """The variables with which another process starts under cubfc, with these options: for what starts processes itself.

        subprocess.Popen(["./app"], env=os.environ | cubfc.environment(mem_limit="20GiB"))

    Options are those of `cubfc run`, with underscores. LD_PRELOAD has what it has here, and the library behind that. The file of
    the library must be at the same path where the process starts. Nothing is changed in this process.

    Raises ValueError for an option or a value that cannot be used, FileNotFoundError where the command or the library is missing.
    """
    ours = {name: value for name, value in os.environ.items() if not name.startswith("CUBFC_")}
    told = _output([*_under_cubfc(options), sys.executable, "-c", _TELL_ENVIRONMENT], ours)
    variables: dict[str, str] = json.loads(told)
    return variables


# A program that `cubfc run` starts, and that prints which variables `cubfc run` has set.
_TELL_ENVIRONMENT = """
import json, os
print(json.dumps({name: value for name, value in os.environ.items() if name == "LD_PRELOAD" or name.startswith("CUBFC_")}))
"""


def library() -> str:
    """The path of libcubfc.so, for LD_PRELOAD: the one that `cubfc run` uses. A string."""
    told = subprocess.run([_command(), "--library"], capture_output=True, text=True, check=False)
    if told.returncode != 0:
        raise FileNotFoundError(told.stderr.strip())
    return told.stdout.strip()


def _function(name: str) -> Any:
    return getattr(ctypes.CDLL(None), name, None)


def _command() -> str:
    """The `cubfc` that was installed with this module, else the one in PATH."""
    of_user = sysconfig.get_preferred_scheme("user") if sys.version_info >= (3, 10) else f"{os.name}_user"
    for folder in (sysconfig.get_path("scripts"), sysconfig.get_path("scripts", of_user)):
        path = pathlib.Path(folder) / "cubfc"
        if os.access(path, os.X_OK):
            return str(path)
    found = shutil.which("cubfc")
    if found is None:
        raise FileNotFoundError("there is no command cubfc: neither beside this Python nor in PATH")
    return found


def _under_cubfc(options: dict[str, _Value]) -> list[str]:
    """What stands before a program and its arguments."""
    return [_command(), "run", "-q", *_flags(options), "--"]


def _output(command: list[str], variables: Optional[dict[str, str]] = None) -> str:
    """Of a command line of cubfc's; ValueError with what it says where it cannot be used."""
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(done.stderr.strip())
    return done.stdout


def _flags(options: dict[str, _Value]) -> Iterator[str]:
    for name, value in options.items():
        yield f"--{name.replace('_', '-')}={str(value).lower() if isinstance(value, bool) else value}"


def _original_words() -> list[str]:
    """The interpreter's command line; sys.orig_argv is there from Python 3.10 on."""
    if sys.version_info >= (3, 10):
        return sys.orig_argv
    return [os.fsdecode(word) for word in pathlib.Path("/proc/self/cmdline").read_bytes().split(b"\0")[:-1]]


def _why_not_again() -> Optional[str]:
    """Why the program cannot be executed again, or None."""
    if _cuda_has_started():
        return "it is too late, CUDA has started: call it before anything uses the GPU"
    if getattr(sys, "frozen", False) or not sys.executable:
        return "this program is no script of a Python interpreter's"
    if "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None:
        return "a notebook's or IPython's session cannot be executed again"
    is_file = getattr(sys.modules["__main__"], "__file__", "<stdin>") != "<stdin>"
    if sys.flags.interactive or hasattr(sys, "ps1") or not (is_file or "-c" in _original_words()):
        return "what an interpreter has read from a terminal or a pipe cannot be read again"
    return None


def _cuda_has_started() -> bool:
    """Whether a context is there. Asks the driver only where something has loaded it already."""
    try:
        driver = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return False
    count = ctypes.c_int(0)
    if driver.cuDeviceGetCount(ctypes.byref(count)) != 0:  # nobody has called cuInit
        return False
    context = ctypes.c_void_p()
    if driver.cuCtxGetCurrent(ctypes.byref(context)) == 0 and context.value:
        return True
    for device in range(count.value):
        flags, active = ctypes.c_uint(), ctypes.c_int()
        if driver.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active)) == 0 and active.value:
            return True
    return False
