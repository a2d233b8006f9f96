#!/usr/bin/env python3
"""Every command line of README.md and docs/ is executed, in a folder of its page's own on the software driver, and prints
what stands below it but for its numbers; or the comment right above its block says why it is not:

    <!-- try: COMMANDS -->         is executed after these
    <!-- shows: COMMANDS -->       the block is what these print
    <!-- needs: a GPU -->          or an engine (Docker, Slurm, ...), the network, root: counted, its syntax is checked
    <!-- tried by: FILE -->        another test executes it
    <!-- no commands -->           a picture, or lines of a file

Without a comment a block with prompts is executed as it is. A line `…` or `...` stands for any number of lines.

usage: commands_test.py CUBFC LIBRARY DRIVER_FOLDER BUILD_FOLDER
"""
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import pages

sys.path.insert(0, str(pages.ROOT / "tests/cli"))
from other_user import without_processes  # noqa: E402

CUBFC, LIBRARY, DRIVER, BUILD = sys.argv[1:5] if len(sys.argv) >= 5 else sys.exit(__doc__)
PATIENCE = 300  # seconds, for what takes some
NEEDS = ("a GPU", "Docker", "Kubernetes", "Slurm", "Open MPI", "MPS", "PyTorch", "Jupyter", "the network", "root")
SHELL_LANGUAGES = ("", "sh", "console")

# Before each block. `start` waits until the program has written a line.
PRELUDE = r"""
exec 2>&1 < /dev/null
trap 'kill $(jobs -p) 2> /dev/null' EXIT
start() {
  local log=log.$$.$((++started))
  "$@" > $log &
  until [ -s $log ]; do sleep 0.02; done
}
"""


def masked(line):
    """Without what is another each time: numbers with their units, maps of memory, bars, who and where, blanks; and on each
    machine: why it is not known what others hold of a GPU."""
    line = re.sub(r"[*x_]{16,}", "MAP", line)
    line = re.sub(r"\[[█▓▒░?]{16,}\]", "BAR", line)
    line = re.sub(r"(others or free, not known) \(.*\)", r"\1", line)
    line = re.sub(r"GPU-[0-9a-f-]{36}", "UUID", line)
    line = re.sub(r'\b(host|user)="[^"]*"', r'\1="NAME"', line)
    line = re.sub(r"\d[\d.,]*( ?(?:[KMGT]i)?B\b| [nµm]?s\b)?", "#", line)
    return re.sub(r"\s+", " ", line).strip()


def missing_or_more(shown, printed):
    """The lines that only one of the two has. In which order two programs' lines come, and standard output beside standard
    error, is another on a terminal."""
    shown, printed = collections.Counter(shown), collections.Counter(printed)
    left_out = shown.pop("…", 0) + shown.pop("...", 0)
    return list((shown - printed).elements()), [] if left_out else list((printed - shown).elements())


class Commands(unittest.TestCase):
    counts = collections.Counter()

    @classmethod
    def setUpClass(cls):
        cls.user = without_processes(CUBFC)

    @classmethod
    def tearDownClass(cls):
        print("command lines:", ", ".join(f"{count} {what}" for what, count in sorted(cls.counts.items())), file=sys.stderr)

    def sandbox(self):
        folder = tempfile.TemporaryDirectory(prefix="cubfc-docs-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("run", "work", "prometheus"):
            (self.folder / name).mkdir(mode=0o700)
        if self.user:
            for path in (self.folder, *self.folder.iterdir()):
                os.chown(path, self.user["user"], self.user["group"])
        for name in ("app", "first", "second"):
            shutil.copy(f"{BUILD}/tests/programs/program_free_memory", self.folder / "work" / name)
        self.places = {"/var/lib/prometheus/node-exporter": f"{self.folder}/prometheus", "/usr/local/lib/libcubfc.so": LIBRARY,
                       "/home/you": f"{self.folder}/work", "build/release": BUILD}
        self.environment = {
            "PATH": f"{os.path.dirname(CUBFC)}:{BUILD}/tests/programs:{BUILD}/tests/cli/report:/usr/local/bin:/usr/bin:/bin:/sbin",
            "LC_ALL": "C.UTF-8", "LD_LIBRARY_PATH": DRIVER, "STANDIN_MEMORY": "24GiB", "XDG_RUNTIME_DIR": str(self.folder / "run"),
            "CUBFC_TRACES": os.environ.get("CUBFC_TRACES", ""), "ROOT": str(pages.ROOT), "HERE": str(self.folder / "work")}

    def real(self, script):
        """With the places that are on this machine what the pages' are on their readers'."""
        written = "|".join(re.escape(place) for place in self.places)
        return re.sub(rf"(?:\$PWD/|(?<![\w/]))({written})", lambda found: self.places[found[1]], script)

    def execute(self, *commands):
        """What each prints."""
        script = PRELUDE + "".join(f"echo @@@\n{command}\n" for command in commands) + "echo @@@\n"
        user = {} if "$ROOT" in script else self.user  # the project's folder is whose it is
        with subprocess.Popen(["bash", "-c", self.real(script)], cwd=self.folder / "work", env=self.environment, text=True,
                              stdout=subprocess.PIPE, start_new_session=True, **user) as process:
            output, _ = process.communicate(timeout=PATIENCE)
        for written, real in self.places.items():
            output = output.replace(real, written)
        return output.split("@@@\n")[1:]

    def assert_prints(self, shown, printed):
        shown, printed = ([masked(line) for line in text.splitlines() if line.strip()] for text in (shown, printed))
        missing, more = missing_or_more(shown, printed)
        if missing or more:
            self.fail("\n".join(["", *(f"only the page has:    {line}" for line in missing),
                                 *(f"only the command has: {line}" for line in more)]))

    def assert_is_shell(self, text):
        done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), text)

    def check(self, mark, text):
        steps = pages.steps_of(text)
        kind, _, rest = (mark or "").partition(": ")
        typed = [command for command, _ in steps] or [text]
        lines = sum(len(command.replace("\\\n", "").strip().splitlines()) for command in typed)
        if kind == "no commands":
            self.assertEqual(steps, [])
        elif kind == "needs":
            self.assertIn(rest, NEEDS)
            for command in typed:
                self.assert_is_shell(command)
            self.counts[f"need {rest}"] += lines
        elif kind == "tried by":
            self.assertTrue((pages.ROOT / rest).is_file(), rest)
            for command in typed:
                self.assert_is_shell(command)
            self.counts["tried by other tests"] += lines
        elif kind == "shows":
            self.assertEqual(steps, [])
            self.assert_prints(text, self.execute(rest)[0])
            self.counts["executed"] += 1
        elif steps and kind in ("", "try"):
            for (_, shown), printed in zip(steps, self.execute(rest or ":", *typed)[1:]):
                self.assert_prints(shown, printed)
            self.counts["executed"] += lines
        elif kind == "try":
            (self.folder / "work/block.sh").write_text(self.real(text) + "\nfor job in $(jobs -p); do wait $job; done\n")
            self.assertEqual(self.execute(rest, "bash -e $HERE/block.sh > $HERE/said 2>&1 || { echo exit status $?; cat $HERE/said; }")[1], "")
            self.counts["executed"] += lines
        else:
            self.fail(f"the comment above a block without a prompt says what is to be done with it; this says {mark!r}")

    def test_each_is_executed_or_says_why_not(self):
        for page in pages.PAGES:
            self.sandbox()
            for line, mark, language, text in pages.marked_blocks_of(page):
                if language not in SHELL_LANGUAGES:
                    continue
                with self.subTest(f"{pages.name_of(page)}:{line}"):
                    if "$CUBFC_TRACES" in (mark or "") and not self.environment["CUBFC_TRACES"]:
                        self.counts["need recorded traces (CUBFC_TRACES)"] += 1
                        continue
                    self.check(mark, text)


class Itself(unittest.TestCase):
    """What would not be seen otherwise is."""

    def test_numbers_may_differ_and_nothing_else(self):
        lines = "cubfc: peak 4.46 GiB in 3 calls", "map  xxxxxxxx********____"
        self.assertEqual(masked(lines[0]), masked("cubfc: peak 201.0 MiB  in 1,300 calls"))
        self.assertNotEqual(masked(lines[0]), masked("cubfc: peak 4.46 GiB in 3 driver calls"))
        self.assertEqual(masked(lines[1]), masked("map ________________x"))

    def test_lines_are_left_out_where_that_is_shown(self):
        self.assertEqual(missing_or_more(["a", "…", "c"], ["c", "b", "b", "a"]), ([], []))
        self.assertEqual(missing_or_more(["a", "c"], ["a", "b", "c"]), ([], ["b"]))
        self.assertEqual(missing_or_more(["a", "…", "c"], ["a", "b"]), (["c"], []))
        self.assertEqual(missing_or_more(["a", "a"], ["a"]), (["a"], []))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
