"""Runs one program as a user would, and says how it ended. Knows nothing of what is expected."""

import dataclasses
import os
import signal
import subprocess
import time


@dataclasses.dataclass
class Outcome:
    status: int  # exit code; 128 + signal; 124 when it did not end in time
    out: str
    err: str
    seconds: float

    @property
    def lacking(self):
        """What this machine lacks for the program to run at all; None if nothing."""
        if self.status == 77:
            return self.out.removeprefix("lacking: ").strip() or "a device"
        if self.status == 127 and "error while loading shared libraries: " in self.err:
            return self.err.split("error while loading shared libraries: ")[1].split(":")[0]
        return None


def run(command, environment, patience_seconds=240):
    """What the program leaves running is ended with it."""
    start = time.monotonic()
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, text=True, errors="replace")
    try:
        out, err = process.communicate(timeout=patience_seconds)
        status = process.returncode if process.returncode >= 0 else 128 - process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        status = 124
    return Outcome(status, out, err, time.monotonic() - start)
