"""Runs one program as a user would, and says how it ended. Knows nothing of what is expected."""

import dataclasses
import os
import signal
import subprocess
import threading
import time

LACKING = 77
_MISSING_LIBRARY = "error while loading shared libraries: "


@dataclasses.dataclass
class Outcome:
    status: int  # exit code; 128 + signal; 124 when it did not end in time
    out: str
    err: str
    seconds: float

    @property
    def lacking(self):
        """What is lacking for the program to run at all; None if nothing."""
        if self.status == LACKING:
            return self.out.strip().removeprefix("lacking: ") or "a device"
        if self.status == 127 and _MISSING_LIBRARY in self.err:
            return self.err.split(_MISSING_LIBRARY)[1].split(":")[0]
        return None


class Runs:
    """Those of one check: none begins after the deadline, and none outlives end_all()."""

    def __init__(self, seconds=None):
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._lock = threading.RLock()  # a signal's handler may come upon itself
        self._running = set()
        self._over = False

    def run(self, command, environment, patience_seconds=240):
        """What the program leaves running is ended with it."""
        start = time.monotonic()
        if self._deadline is not None:
            patience_seconds = min(patience_seconds, self._deadline - start)
        if patience_seconds <= 0:
            return Outcome(LACKING, "lacking: time", "", 0.0)
        try:
            with self._lock:
                if self._over:
                    return Outcome(LACKING, "lacking: time", "", 0.0)
                # A group, not a session: who ends this check ends its programs, too.
                process = subprocess.Popen(
                    command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, process_group=0, text=True, errors="replace")
                self._running.add(process.pid)
        except OSError as error:
            return Outcome(LACKING, f"lacking: {error}", "", 0.0)
        try:
            out, err = process.communicate(timeout=patience_seconds)
            status = process.returncode if process.returncode >= 0 else 128 - process.returncode
        except subprocess.TimeoutExpired:
            _kill(process.pid)
            out, err = process.communicate()
            status = 124
        with self._lock:
            self._running.discard(process.pid)
        _kill(process.pid)
        return Outcome(status, out, err, time.monotonic() - start)

    def end_all(self):
        with self._lock:
            self._over = True
            for group in self._running:
                _kill(group)


def _kill(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass  # nothing of it is left
