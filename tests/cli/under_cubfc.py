"""Processes under cubfc on the software driver, and the commands that look at them, in a runtime folder of the
test's own."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

from other_user import without_processes

PATIENCE = 120  # seconds, for what comes at once where nothing else runs


def wait_until(condition, what):
    """The first value that is true; an assertion with what() in its message when none comes."""
    deadline = time.monotonic() + PATIENCE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"has not come: {what()}")
        time.sleep(0.02)


class UnderCubfc(unittest.TestCase):
    def setUp(self):
        self.cubfc, self.library, self.driver, self.programs = ARGUMENTS
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.user = without_processes(self.cubfc)
        self.runtime = self.folder / "run"
        self.runtime.mkdir(mode=0o700)
        for path in (self.folder, self.runtime):
            self.give(path)
        self.environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        self.environment |= {"LC_ALL": "C.UTF-8", "XDG_RUNTIME_DIR": str(self.runtime)}

    def give(self, path):
        if self.user:
            os.chown(path, self.user["user"], self.user["group"])

    def write(self, path, contents):
        path.write_bytes(contents)
        path.chmod(0o600)
        self.give(path)

    def start(self, *words, **more):
        """A program that holds what it has until its stdin ends: started, and at rest."""
        environment = self.environment | {
            "LD_LIBRARY_PATH": self.driver, "LD_PRELOAD": self.library, "STANDIN_MEMORY": "4GiB",
            "STANDIN_SHARED": str(self.folder / "devices"), **more}
        process = subprocess.Popen([f"{self.programs}/program_free_memory", *words], env=environment,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **self.user)
        self.addCleanup(self.end, process)
        self.assertRegex(process.stdout.readline(), r"^\d+ \d+\n$")
        return process

    def end(self, process):
        if process.stdin.closed:
            return
        process.stdin.close()
        process.wait(timeout=PATIENCE)
        process.stdout.close()

    def kill(self, process):
        process.kill()
        process.wait(timeout=PATIENCE)

    def run_cubfc(self, *words, **more):
        environment = self.environment | more
        return subprocess.run([self.cubfc, *words], env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=PATIENCE, check=False, **self.user)

    def output_of(self, *words, **more):
        done = self.run_cubfc(*words, **more)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def files(self):
        return sorted((self.runtime / "cubfc").glob("figures-*"))


SAMPLE = re.compile(r'(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>-?[0-9]+(?:\.[0-9]+)?)')
LABEL = re.compile(r'(?P<name>[a-zA-Z_][a-zA-Z0-9_]*)="(?P<value>(?:[^"\\\n]|\\["\\n])*)"(?:,|$)')


def labels_of(text):
    labels = {}
    while text:
        label = LABEL.match(text)
        if label is None or label["name"] in labels or label["name"].startswith("__"):
            raise AssertionError(f"labels: {text}")
        labels[label["name"]] = re.sub(r"\\(.)", lambda c: "\n" if c[1] == "n" else c[1], label["value"])
        text = text[label.end():]
    return labels


def read_metrics(text):
    """{name: [(labels, value)]} of a page in Prometheus's text format, read as strictly as the format is written:
    HELP and TYPE before the samples of a name, which stand together, no two with the same labels."""
    if not text.endswith("\n"):
        raise AssertionError("the last line has no end")
    metrics, kinds, taken, name = {}, {}, set(), None
    for number, line in enumerate(text[:-1].split("\n"), 1):
        words = line.split(" ", 3)
        if words[:2] == ["#", "HELP"]:
            name = words[2]
            if name in metrics:
                raise AssertionError(f"line {number}: {name} once more")
            metrics[name] = []
        elif words[:2] == ["#", "TYPE"]:
            kinds[words[2]] = words[3]
            if words[2] != name or words[3] not in ("gauge", "counter") or metrics[name]:
                raise AssertionError(f"line {number}: {line}")
        else:
            sample = SAMPLE.fullmatch(line)
            if sample is None or sample["name"] != name or name not in kinds or line in taken:
                raise AssertionError(f"line {number}: {line}")
            series = line.rsplit(" ", 1)[0]
            if series in taken:
                raise AssertionError(f"line {number}: a second {series}")
            taken.add(series)
            value = float(sample["value"]) if "." in sample["value"] else int(sample["value"])
            metrics[name].append((labels_of(sample["labels"] or ""), value))
            if (kinds[name] == "counter") != name.endswith("_total"):
                raise AssertionError(f"line {number}: {name} is a {kinds[name]}")
    return metrics


def run_tests(purpose):
    """ARGUMENTS: CUBFC LIBRARY DRIVER_FOLDER PROGRAMS_FOLDER."""
    if len(sys.argv) < 5:
        sys.exit(purpose)
    ARGUMENTS[:] = map(os.path.abspath, sys.argv[1:5])
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])


ARGUMENTS = []
