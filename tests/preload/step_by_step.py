"""program_step_by_step, which takes a step whenever it is told to."""

import contextlib
import os
import subprocess


class StepByStep:
    """Runs until it is ended, or left as a context."""

    def __init__(self, programs, environment, **more):
        self.process = subprocess.Popen(
            [os.path.join(programs, "program_step_by_step")], text=True, bufsize=1, env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
        self.told = []

    def say(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise AssertionError("has ended") from None
        answer = self.process.stdout.readline().strip()
        self.told.append(f"{line}: {answer}")
        return answer

    def info(self):
        """(free, total), in MiB."""
        return tuple(int(word) // (1 << 20) for word in self.say("info").split())

    def end(self):
        """Its exit status, and what it has said on stderr."""
        if self.process.stdout.closed:
            return self.process.returncode, ""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        said = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        return self.process.wait(), said

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
