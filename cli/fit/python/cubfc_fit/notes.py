"""What `cubfc fit` is told of the run: the file that CUBFC_FIT_NOTES names. It is written again and again while the program
runs (run.py), and replaced as a whole each time, so that a reader finds no half of it."""

import json
import os
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))


def _line():
    """The line of the program's own code that led to what is noted; else the outermost line of other packages; else "the
    backward pass", which runs on a thread of autograd's, without the program's code on its stack."""
    frame = sys._getframe(2)
    outer = None
    while frame:
        name = frame.f_code.co_filename
        if not name.startswith(("<", HERE)):
            outer = f"{name}:{frame.f_lineno}"
            if f"{os.sep}site-packages{os.sep}" not in name and f"{os.sep}lib{os.sep}python" not in name:
                return outer
        frame = frame.f_back
    return outer or "the backward pass"


class Notes:
    def __init__(self):
        self._begin_anew()
        os.register_at_fork(after_in_child=self._begin_anew)

    def _begin_anew(self):
        """Also called in a child of fork: the child has a file of its own, and another thread of the parent may have held the lock."""
        self._lock = threading.Lock()
        self._path = os.environ.get("CUBFC_FIT_NOTES", "").replace("%p", str(os.getpid()))
        self._rows = {}
        self.facts = {}

    def add(self, kind, what, detail="", count=1):
        key = (kind, what, _line())
        with self._lock:
            row = self._rows.setdefault(key, {"count": 0, "elements": 0, "detail": detail})
            row["count"] += 1
            row["elements"] += count

    def read(self, elements, how):
        self.add("read", how, count=elements)

    def size(self, operator, took_all):
        self.add("size" if took_all else "size of guesses", operator.partition("::")[2])

    def size_unknown(self, operator):
        self.add("none taken", operator.partition("::")[2])

    def communicator(self, ranks):
        """Notes a communicator that NCCL would have made, among so many GPUs."""
        with self._lock:
            self.facts["communicators"] = [*self.facts.get("communicators", ()), ranks]

    def set(self, **facts):
        with self._lock:
            self.facts.update(facts)

    def write(self):
        if not self._path:
            return
        with self._lock:
            rows = [{"kind": kind, "what": what, "line": line, **row} for (kind, what, line), row in self._rows.items()]
            text = json.dumps({**self.facts, "notes": rows})
        with open(f"{self._path}.new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(f"{self._path}.new", self._path)


notes = Notes()
