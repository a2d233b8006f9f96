"""Starts what follows the program, once PyTorch is there, and ends the program when its peak is known.

CUBFC_FIT_STEPS: ends the program when its peak has not risen over so many steps of an optimizer; 0: never. CUBFC_FIT_SECONDS:
ends it so many seconds after PyTorch was imported; 0: never."""

import atexit
import ctypes
import os
import sys
import threading
import time

import torch

from .collectives import run_by_gloo
from .mode import InForce, forget
from .notes import notes
from .waits import waits

_TICK = 0.25  # seconds


class _Run:
    def __init__(self):
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._steps = 0
        self._peak = {"allocated": 0, "reserved": 0}  # bytes, of all devices together
        self._peak_step = 0
        self._peak_seconds = 0.0
        self._most_steps = int(os.environ.get("CUBFC_FIT_STEPS") or 0)
        self._most_seconds = float(os.environ.get("CUBFC_FIT_SECONDS") or 0)
        self._pid = os.getpid()
        self._is_over = threading.Event()
        self._ticking = threading.Thread(target=self._tick, name="cubfc-fit", daemon=True)

    def step(self, *_):
        """PyTorch calls it after each step of an optimizer."""
        self._look()
        with self._lock:
            self._steps += 1
            is_known = self._most_steps and self._steps - self._peak_step > self._most_steps
        if is_known:
            self.end("steps")

    def begin(self):
        waits.end = lambda: self.end("waits")
        self._ticking.start()
        atexit.register(lambda: self._finish("failed" if hasattr(sys, "last_type") else "ended"))

    def _tick(self):
        while not self._is_over.wait(_TICK):
            _keep_recording()
            self._look()
            self._tell("running")
            notes.write()
            if self._most_seconds and time.monotonic() - self._started > self._most_seconds:
                self.end("seconds")

    def _look(self):
        """Keeps the highest of PyTorch's own peaks, which the program may reset."""
        if not torch.cuda.is_initialized():
            return
        now = {"allocated": 0, "reserved": 0}
        for device in range(torch.cuda.device_count()):
            stats = torch.cuda.memory_stats(device)
            for kind, most in now.items():
                now[kind] = most + stats.get(f"{kind}_bytes.all.peak", 0)
        with self._lock:
            if now["allocated"] > self._peak["allocated"] or now["reserved"] > self._peak["reserved"]:
                self._peak_step, self._peak_seconds = self._steps, time.monotonic() - self._started
            self._peak = {kind: max(most, now[kind]) for kind, most in self._peak.items()}

    def _tell(self, state):
        notes.set(state=state, steps=self._steps, peak_step=self._peak_step, seconds=time.monotonic() - self._started,
                  peak_seconds=self._peak_seconds, waited_at=waits.answered, torch=torch.__version__, cuda=torch.version.cuda, python=sys.version.split()[0],
                  **self._peak)

    def _finish(self, state):
        with self._lock:
            if self._is_over.is_set() or os.getpid() != self._pid:  # a child of fork has the exit handlers, too
                return
            self._is_over.set()
        if threading.current_thread() is not self._ticking:
            # The thread must have ended before Python does. Later Python would end it by unwinding PyTorch's code, which
            # aborts.
            self._ticking.join()
        _keep_recording()
        self._look()
        # Where a loop was given another answer, the end that it led to is not the program's own.
        self._tell("waits" if state in ("ended", "failed") and waits.answered else state)
        notes.write()

    def end(self, why):
        """Ends the process without the program's own exit handlers, which could take as long as the program."""
        self._finish(why)
        sys.stdout.flush()
        sys.stderr.flush()
        _exit(0)


def _keep_recording():
    """Has the library write what it has recorded: this process may be killed, as those are that wait for one which has
    ended."""
    flush = getattr(ctypes.CDLL(None), "cubfc_flush", None)
    if flush:
        flush()


_run = _Run()


_exit = os._exit


def _exit_with_recording(status):
    """Takes the place of os._exit, by which workers of multiprocessing end: no exit handler runs."""
    _run._finish("ended")
    _exit(status)


def start():
    os._exit = _exit_with_recording
    InForce().__enter__()
    _follow_threads()
    _follow_inductor()
    run_by_gloo()
    _run_recurrent_networks_without_cudnn()
    from torch.optim.optimizer import register_optimizer_step_post_hook
    register_optimizer_step_post_hook(_run.step)
    _run.begin()


def _follow_inductor():
    """Wraps the function by which code of torch.compile's takes memory, as no mode sees that."""
    guards = getattr(torch._C._dynamo, "guards", None)
    take = getattr(guards, "_empty_strided_cuda", None)
    if take is None:
        return

    def empty_strided(*arguments):
        memory = take(*arguments)
        forget(memory)
        return memory

    guards._empty_strided_cuda = empty_strided


def _run_recurrent_networks_without_cudnn():
    """cuDNN is not there, and how much its recurrent networks keep for the backward pass is not known. PyTorch's own code takes
    their place."""
    torch.nn.RNNBase.flatten_parameters = lambda module: None  # would copy parameters into cuDNN's layout, of the same size

    def without(name):
        of_pytorch = getattr(torch._VF, name)

        def function(*arguments):
            notes.add("replaced", "cuDNN's recurrent networks")
            was = torch._C._get_cudnn_enabled()
            torch._C._set_cudnn_enabled(False)
            try:
                return of_pytorch(*arguments)
            finally:
                torch._C._set_cudnn_enabled(was)

        return function

    from torch.nn.modules import rnn
    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        setattr(torch._VF, name, without(name))
    for kind in list(rnn._rnn_impls):
        rnn._rnn_impls[kind] = getattr(torch._VF, kind.lower())


def _follow_threads():
    """Puts the mode in force in each new thread, as PyTorch's modes are each thread's own."""
    bootstrap = threading.Thread._bootstrap_inner

    def under_mode(thread):
        with InForce():
            bootstrap(thread)

    threading.Thread._bootstrap_inner = under_mode
