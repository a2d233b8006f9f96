#!/usr/bin/env python3
"""The man page and the shells' completions, as the shells see them.

usage: documentation_test.py CUBFC LIBRARY OPTIONS_SOURCE
"""
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

if len(sys.argv) < 4:
    sys.exit(__doc__)
CUBFC, LIBRARY, OPTIONS = sys.argv[1:4]


def output(*words, **more):
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True, **more).stdout


def commands():
    return re.findall(r"^  ([a-z-]+) +[A-Z]", output(CUBFC, "--help").split("Subcommands:")[1], re.M)


def flags(command):
    return set(re.findall(r"^  (?:-\w,)?(--[a-z-]+)", output(CUBFC, command, "--help"), re.M))


class ManPage(unittest.TestCase):
    def setUp(self):
        self.page = output(CUBFC, "man-page")

    def test_all_commands_flags_and_variables_are_there(self):
        plain = self.page.replace("\\-", "-")
        variables = set(re.findall(r'"(CUBFC_[A-Z_]+)"', pathlib.Path(OPTIONS).read_text()))
        self.assertGreater(len(commands()), 8)
        self.assertGreater(len(variables), 20)
        self.assertIn("\\fB--library\\fR", plain)
        for command in commands():
            self.assertIn(f"\n.SS {command}\n", plain)
            for flag in flags(command):
                self.assertIn(f"\\fB{flag}\\fR", plain)
        for variable in variables:
            self.assertIn(f"\\fB{variable}\\fR\n", plain)

    def test_man_shows_it(self):
        if not shutil.which("man") or not shutil.which("groff"):
            self.skipTest("there is no man")
        with tempfile.NamedTemporaryFile("w", suffix=".1") as file:
            file.write(self.page)
            file.flush()
            shown = subprocess.run(["man", "--warnings", "-l", file.name], capture_output=True, text=True, check=True,
                                   env={"PATH": "/usr/bin:/bin", "MANWIDTH": "100", "LC_ALL": "C.UTF-8", "TERM": "dumb"})
        self.assertEqual(shown.stderr, "")
        self.assertIn("cubfc run --mem-fraction 0.5 -- python3 train.py", shown.stdout)
        self.assertNotIn("\\", re.sub(r"\\e", "", shown.stdout))


class Terminal:
    """A shell of a user who types."""

    def __init__(self, folder):
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            os.execve("/bin/bash", ["bash", "--norc", "--noprofile"],
                      {"PATH": "/usr/bin:/bin", "TERM": "dumb", "PS1": "> ", "INPUTRC": "/dev/null"})

    def show(self, typed, awaited):
        """Types it, and what is shown until what is awaited."""
        os.write(self.terminal, typed.encode())
        shown = ""
        while awaited not in shown:
            if not select.select([self.terminal], [], [], 20)[0]:
                raise AssertionError(f"{typed!r}: {awaited!r} is not shown, but:\n{shown}")
            shown += os.read(self.terminal, 4096).decode()
        return shown

    def close(self):
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        os.close(self.terminal)


class Bash(unittest.TestCase):
    def complete(self, *words):
        """What is answered; nothing where bash itself offers files."""
        script = 'source <("$1" completion bash); shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cubfc; ' \
                 'printf "%s\\n" "${COMPREPLY[@]}"'
        return set(output("bash", "--norc", "-c", script, "bash", CUBFC, "cubfc", *words).split())

    def test_commands(self):
        self.assertEqual(self.complete(""), set(commands()))
        self.assertEqual(self.complete("--"), {"--help", "--version", "--library"})
        self.assertEqual(self.complete("ru"), {"run"})

    def test_flags(self):
        for command in commands():
            self.assertEqual({word for word in self.complete(command, "--")}, flags(command), command)
        self.assertEqual(self.complete("run", "--mem-f"), {"--mem-fraction", "--mem-fraction-of"})
        self.assertEqual(self.complete("no-such", "--"), set())

    def test_values(self):
        allocators = {"bfc", "vmm", "cuda_async", "platform"}
        self.assertEqual(self.complete("run", "--allocator", ""), allocators)
        self.assertEqual(self.complete("run", "--allocator", "="), allocators)
        self.assertEqual(self.complete("run", "-q", "--allocator", "=", "v"), {"vmm"})
        self.assertEqual(self.complete("report", "--format", "p"), {"perfetto"})
        self.assertEqual(self.complete("completion", ""), {"bash", "zsh", "fish"})
        self.assertEqual(self.complete("run", "--mem-limit", ""), set())

    def test_programs_and_what_is_theirs(self):
        for before in ([], ["--"], ["-q"], ["--free", "sync"], ["--mem-limit", "=", "4GiB", "--"]):
            self.assertIn("bash", self.complete("run", *before, "bas"))
            self.assertEqual(self.complete("run", *before, "bash", "--mem-f"), set())

    def test_what_a_user_sees(self):
        """In a terminal, with TAB: files with blanks in their names, too, and no name of ours in the shell."""
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "a first.csv").touch()
            shell = Terminal(folder)
            self.addCleanup(shell.close)
            shown = shell.show(f"source <('{CUBFC}' completion bash); compgen -A function; "
                               "cubfc() { printf '<%s>' \"$@\"; }; echo read''y\n", "ready\r")
            self.assertEqual(re.findall(r"^(\w+)\r$", shown, re.M), ["_cubfc", "ready"])
            for typed, got in [("report a\t", "<report><a first.csv>"),
                               ("run --trace a\t", "<run><--trace><a first.csv>"),
                               ("run --trace=a\t", "<run><--trace=a first.csv>"),
                               ("run bash a\t", "<run><bash><a first.csv>"),
                               ("run --free sync -- bash a\t", "<run><--free><sync><--><bash><a first.csv>"),
                               ("replay --trace 'a \t", "<replay><--trace><a first.csv>"),
                               ("run --allo\tvm\t", "<run><--allocator><vmm>")]:
                shell.show(f"cubfc {typed}\n", got)


class OtherShells(unittest.TestCase):
    def test_zsh(self):
        if not shutil.which("zsh"):
            self.skipTest("there is no zsh")
        output("zsh", "-fn", "/dev/stdin", input=output(CUBFC, "completion", "zsh"))
        output("zsh", "-fc", f"autoload -U compinit; compinit -D -u; source <({CUBFC} completion zsh); (( $+functions[_cubfc] ))")

    def test_fish(self):
        if not shutil.which("fish"):
            self.skipTest("there is no fish")

        def complete(line):
            shown = output("fish", "--no-config", "-c", f"{CUBFC} completion fish | source; complete -C '{line}'")
            return {entry.split("\t")[0] for entry in shown.splitlines()}

        self.assertEqual(complete("cubfc "), set(commands()))
        self.assertEqual(complete("cubfc run --mem-f"), {"--mem-fraction", "--mem-fraction-of"})
        self.assertEqual(complete("cubfc run --free "), {"sync", "deferred"})
        self.assertIn("bash", complete("cubfc run --free sync -- bas"))
        self.assertIn("--library", complete("cubfc --"))
        menu = output("fish", "--no-config", "-c", f"{CUBFC} completion fish | source; complete -C 'cubfc run --'")
        self.assertRegex(menu, "--library\tlibcubfc.so .the one beside this command.\n")
        self.assertIn("--allocator\tbfc: best fit with coalescing over regions from the driver\n", menu)


class Words(unittest.TestCase):
    def test_the_librarys_path(self):
        self.assertEqual(output(CUBFC, "--library"), LIBRARY + "\n")

    def test_no_such_shell(self):
        for words in ([], ["tcsh"], ["bash", "zsh"]):
            done = subprocess.run([CUBFC, "completion", *words], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""))

    def test_a_pipe_that_is_full(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            for words in (["man-page"], ["completion", "bash"]):
                done = subprocess.run([CUBFC, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
                self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
