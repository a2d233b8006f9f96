#!/usr/bin/env python3
"""`cubfc top` on a terminal, as tmux has one: what stands on the screen, what keys do, and that the terminal is as it was
on every way out.

usage: top_test.py CUBFC LIBRARY DRIVER_FOLDER PROGRAMS_FOLDER
"""
import fcntl
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from under_cubfc import UnderCubfc, run_tests, wait_until


class Top(UnderCubfc):
    def setUp(self):
        super().setUp()
        self.socket = str(self.folder / "tmux")
        environment = self.environment | {"ENV": "", "TERM": "screen"}
        subprocess.run(["tmux", "-S", self.socket, "-f", "/dev/null", "new-session", "-d", "-x", "130", "-y", "30",
                        "exec sh -i"], env=environment, check=True, timeout=60, **self.user)
        self.addCleanup(self.tmux_if_there, "kill-server")
        self.type("-l", "PS1='READ''Y> '; clear")
        self.type("Enter")
        self.await_screen(r"\AREADY>")
        self.shell = int(self.tmux("display-message", "-p", "#{pane_pid}"))
        self.before = self.state_of_the_terminal()

    def tmux(self, *words):
        return subprocess.run(["tmux", "-S", self.socket, *words], env=self.environment, capture_output=True, text=True,
                              check=True, timeout=60, **self.user).stdout

    def tmux_if_there(self, *words):
        subprocess.run(["tmux", "-S", self.socket, *words], capture_output=True, timeout=60, check=False, **self.user)

    def screen(self, *options):
        return self.tmux("capture-pane", "-p", *options)

    def await_screen(self, pattern):
        return wait_until(lambda: re.search(pattern, self.screen(), re.MULTILINE),
                          lambda: f"{pattern}\n{self.screen()}")

    def await_without(self, pattern):
        wait_until(lambda: not re.search(pattern, self.screen(), re.MULTILINE),
                   lambda: f"no {pattern}\n{self.screen()}")

    def type(self, *keys):
        self.tmux("send-keys", *keys)

    def said(self, command):
        """What the shell's command writes."""
        path = self.folder / "said"
        path.unlink(missing_ok=True)
        self.type("-l", f"{command} > {path}.part; mv {path}.part {path}")
        self.type("Enter")
        wait_until(path.exists, self.screen)
        return path.read_text()

    def state_of_the_terminal(self):
        flags = "#{alternate_on} #{cursor_flag} #{wrap_flag} #{keypad_flag}"
        return self.said("stty -g") + self.tmux("display-message", "-p", flags)

    def begin(self, *words, environment=""):
        """cubfc top on the terminal; its process id."""
        self.type("-l", " ".join([environment, self.cubfc, "top", "--interval", "0.2", *words]))
        self.type("Enter")
        self.await_screen(r"^q quit")
        children = pathlib.Path(f"/proc/{self.shell}/task/{self.shell}/children").read_text().split()
        self.assertEqual(len(children), 1)
        return int(children[0])

    def assert_restored(self, status):
        """Back in the shell; before anything else it says how the command ended."""
        # What is typed before that may be the command's.
        wait_until(lambda: self.tmux("display-message", "-p", "#{alternate_on}") == "0\n", self.screen)
        self.assertEqual(self.said("echo $?"), f"{status}\n")
        self.assertEqual(self.state_of_the_terminal(), self.before)
        self.assertIn("top --interval", self.screen())  # what was there before is there again

    def rows(self):
        """(selected, pid) of each row."""
        return [(row[1] == ">", int(row[2])) for row in re.finditer(r"^([ >]) +(\d+)  [\d.]+ \w*B ", self.screen(), re.MULTILINE)]

    def await_rows(self, rows):
        wait_until(lambda: self.rows() == rows, lambda: f"{rows}\n{self.screen()}")

    def test_processes_are_shown_sorted_selected_and_looked_into(self):
        small, large = self.start("holes:200", "wait"), self.start("fill:700", "wait")
        self.begin()
        self.await_screen(r"^GPU 0  standin software GPU  4\.00 GiB  2 processes: 800\.0 MiB in use")
        self.await_rows([(True, large.pid), (False, small.pid)])
        self.type("r")
        self.await_rows([(False, small.pid), (True, large.pid)])
        self.type("Up")
        self.await_rows([(True, small.pid), (False, large.pid)])
        self.type("r", "<")
        self.await_screen(r"^q quit  \? help  sorted by PID; s changes it")
        self.await_rows([(True, small.pid), (False, large.pid)] if small.pid < large.pid
                        else [(False, large.pid), (True, small.pid)])
        self.type("Enter")
        self.await_screen(rf"^pid {small.pid} on GPU 0 ")
        self.await_screen(r"^program +.*program_free_memory holes:200 wait$")
        self.await_screen(r"^  arena +100\.0 MiB +200\.0 MiB$")
        self.await_screen(r"^callers +now +at the peak\n  program_free_memory +100\.0 MiB +200\.0 MiB$")
        self.type("n" if small.pid < large.pid else "p")
        self.await_screen(rf"^pid {large.pid} on GPU 0 ")
        self.type("Escape")
        self.await_without("^callers")
        self.type("q")
        self.assert_restored(0)

    def test_each_key_that_sorts_is_told_below_and_moves_no_title(self):
        process = self.start("fill:100", "wait")
        self.begin()
        titles = self.await_screen(r"^ +PID +IN USE +IDLE .* PROGRAM$")[0]
        for key, order in (("s", "IDLE"), (">", "RESERVED"), ("S", "IDLE"), ("<", "IN USE"), ("r", "IN USE, reversed"),
                           ("<", "PID, reversed"), ("<", "PROGRAM, reversed"), ("<", "NOTE, reversed"), ("r", "NOTE")):
            self.type(key)
            self.await_screen(rf"^q quit  \? help  sorted by {order}; s changes it")
            self.assertEqual(self.screen().split("\n")[1], titles)
            self.assertEqual(self.rows(), [(True, process.pid)])
        self.type("S", "S", "r")
        self.await_screen(r"sorted by REFUSED, reversed")
        # Its title alone looks different: plain text, what is around it is faint.
        self.assertRegex(self.screen("-e"), r"\x1b\[[0-9;]*7m(\x1b\[[0-9;]*m)*REFUSED\x1b\[[0-9;]*2m")
        self.type("q")
        self.assert_restored(0)

    def test_help_is_shown_until_a_key_is_pressed(self):
        process = self.start("fill:100", "wait")
        for key in ("Escape", "x", "q", "?", "Up"):
            self.begin()
            self.type("?")
            self.await_screen(r"^s > +sort by the next column$")
            self.await_screen(r"^any key goes back$")
            self.assertEqual(self.rows(), [])
            self.type(key)
            self.await_rows([(True, process.pid)])
            self.await_screen(r"^q quit")
            self.type("q")
            self.assert_restored(0)
        self.begin()
        self.type("?")
        self.await_screen(r"^any key goes back$")
        self.type("C-c")
        self.assert_restored(0)

    def test_a_list_and_details_that_are_longer_than_the_terminal_are_scrolled(self):
        processes = [self.start(f"fill:{size}00", "wait", CUBFC_PREALLOCATE="false") for size in range(8, 0, -1)]
        self.tmux("resize-window", "-x", "80", "-y", "9")
        self.begin()
        self.await_screen(rf"^> +{processes[0].pid} ")
        titles = self.await_screen(r"^ +PID +IN USE .* PROGRAM$")[0]
        for key, at, first in (("End", 7, False), ("PageUp", 2, False), ("Up", 1, False), ("Home", 0, True), ("Down", 1, True),
                               ("j", 2, True), ("k", 1, True), ("PageDown", 6, False)):
            self.type(key)
            self.await_screen(rf"^> +{processes[at].pid} ")
            self.assertEqual(self.screen().split("\n")[1], titles, key)
            self.assertEqual("\nGPU 0 " in self.screen(), first, key)
        self.type("Enter")
        self.await_screen(rf"^pid {processes[6].pid} on GPU 0")
        for key, seen, unseen in (("End", "^callers .*\n.*200.0 MiB", "^pid "), ("Home", "^pid ", "^callers "),
                                  ("Down", "^program ", "^pid "), ("Up", "^pid ", "^callers"),
                                  ("PageDown", "^policy ", "^pid "), ("PageUp", "^pid ", "^callers"), ("j", "^program ", "^pid "),
                                  ("k", "^pid ", "^callers")):
            self.type(key)
            self.await_screen(seen)
            self.await_without(unseen)
            self.await_screen(rf"^> +{processes[6].pid} ")
        self.type("n")
        self.await_screen(rf"^pid {processes[7].pid} on GPU 0")
        self.type("p", "Enter")
        self.await_without("^pid ")
        self.await_screen(rf"^> +{processes[6].pid} ")
        self.tmux("resize-window", "-x", "130", "-y", "30")
        self.await_rows([(at == 6, process.pid) for at, process in enumerate(processes)])
        self.type("q")
        self.assert_restored(0)

    def test_texts_of_processes_steer_no_terminal_and_move_no_column(self):
        hostile = ["\x1b[2J\x1b]0;title\x07\x9b31m", "漢字" * 30, b"\xff\xc0\x80\xed\xa0\x80", "\u202edesrever\u200f", "a\tb\r\nc"]
        processes = [self.start("fill:100", "wait", words) for words in hostile]
        plain = self.start("fill:100", "wait")
        self.begin()
        rows = sorted([*(process.pid for process in processes), plain.pid])
        self.tmux("resize-window", "-x", "190", "-y", "30")
        self.await_screen(r" WAITING .* PROGRAM$")
        self.await_rows([(at == 0, pid) for at, pid in enumerate(rows)])
        screen = self.screen().split("\n")
        program = screen[1].index("PROGRAM")
        shown = {int(line[1:9]): line for line in screen if re.match(r"^[ >] *\d+  100\.0 MiB ", line)}
        for pid in rows:
            self.assertRegex(shown[pid][program:], r"^(\S*/)?program_free_memory ", shown[pid])
        self.assertRegex(shown[processes[1].pid], r"漢字.*\.\.$")
        for process, text in zip(processes[2:], (r"\?{6}$", r"\?desrever\?$", r"a\?b\?\?c$")):
            self.assertRegex(shown[process.pid], text)
        self.assertTrue(screen[0].startswith("cubfc top"))
        self.assertNotEqual(self.tmux("display-message", "-p", "#{pane_title}"), "title\n")
        for process in processes:
            self.type("Enter", *["n"] * rows.index(process.pid))
            self.await_screen(rf"^pid {process.pid} on GPU 0 ")
            self.await_screen(r"^program +\S+program_free_memory fill:100 wait")
            self.type("Home" if process is processes[0] else "Up", "Escape", *["p"] * rows.index(process.pid))
            self.await_without(r"^pid ")
        self.type("q")
        self.assert_restored(0)

    def test_where_the_locale_is_not_utf_8_all_is_ascii(self):
        self.start("fill:100", "wait", "漢字")
        for environment, pattern in (("LC_ALL=C", r"^\[#+=*\?*\]  # "), ("LC_ALL=C.UTF-8", r"^\[█+▓*\?*\]  █ ")):
            self.begin(environment=environment)
            for key in ("Escape", "Enter", "?"):
                self.await_screen(pattern)
                self.assertEqual(self.screen().isascii(), environment == "LC_ALL=C")
                self.type(key)
                self.await_screen({"Escape": "^q quit", "Enter": "^pid ", "?": "^any key"}[key])
            self.assertTrue(self.screen().isascii())
            self.type("x", "q")
            self.assert_restored(0)

    def test_what_needs_a_look_is_told_by_colours_and_without(self):
        full = self.start("fill:1000", "wait", CUBFC_MEM_LIMIT="1GiB", CUBFC_PREALLOCATE="false")
        self.start("fill:1100", "wait", CUBFC_PREALLOCATE="false")
        for environment in ("", "NO_COLOR=1"):
            self.begin(environment=environment)
            self.await_screen(rf"^ +{full.pid} .* near limit ")
            red = re.search(r"\x1b\[31m1000\.0 MiB\x1b", self.screen("-e"))
            self.assertEqual(red is None, bool(environment))
            self.tmux("resize-window", "-x", "40", "-y", "10")
            self.await_screen(rf"^! +{full.pid} +1000\.0 MiB ")
            self.type("n", "Enter", "End", "Home")
            for _ in range(6):
                self.type("Down")
            self.await_screen("near limit: ")
            self.tmux("resize-window", "-x", "130", "-y", "30")
            self.await_screen(r"^note +near limit: 97\.7 % of its limit is in use$")
            self.type("q")
            self.assert_restored(0)

    def test_the_map_comes_where_a_thread_draws_it_else_it_is_said(self):
        for settings, pattern in (({}, r"^map +\* in use, x partly, _ free\n +[*x_]{64}\n"),
                                  ({"CUBFC_PREALLOCATE": "true"}, "^map +has been asked for and does not come")):
            process = self.start("holes:100", "wait", **settings)
            self.begin()
            self.type("Enter")
            self.await_screen(pattern)
            self.type("q")
            self.assert_restored(0)
            self.end(process)

    def test_a_map_that_a_process_draws_is_shown_and_asked_for_again(self):
        real = self.start("fill:100", "wait")
        path = self.files()[0].parent / "figures-5-1-drawn-by-the-test"
        self.write(path, self.files()[0].read_bytes())
        with path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.end(real)
            self.begin()
            before = path.read_bytes()
            self.type("Enter")
            self.await_screen("^map +asked for")

            def asked():
                now = path.read_bytes()
                return next((at for at, byte in enumerate(now) if byte != before[at]), None)

            wanted = wait_until(asked, self.screen)  # where the request lies: what is drawn follows it
            for number, cells in ((1, b"*" * 100 + b"_" * 156), (2, b"x\x1b" * 128)):
                wait_until(lambda n=number: path.read_bytes()[wanted] == n, self.screen)
                os.pwrite(file.fileno(), cells, wanted + 8)
                os.pwrite(file.fileno(), bytes([number, 0, 0, 0]), wanted + 4)
                self.await_screen(r"^map +\* in use, x partly, _ free\n +\*{64}\n +\*{36}_{28}\n +_{64}\n +_{64}$"
                                  if number == 1 else "^ +x x x x")
            self.type("q")
            self.assert_restored(0)

    def test_a_process_that_dies_disappears(self):
        one, other = self.start("fill:700", "wait"), self.start("fill:100", "wait")
        self.begin()
        self.await_rows([(True, one.pid), (False, other.pid)])
        self.type("Enter")
        self.await_screen(rf"^pid {one.pid} on GPU 0")
        self.kill(one)
        self.await_rows([(True, other.pid)])
        self.await_screen("^the process has ended")
        self.await_without("^callers")
        self.kill(other)
        self.await_screen("^No process under cubfc is seen")
        third = self.start("fill:100", "wait")
        self.await_rows([(True, third.pid)])
        self.type("q")
        self.assert_restored(0)

    def test_the_table_follows_the_size_of_the_terminal(self):
        process = self.start("fill:100", "wait", "漢字" * 40)
        self.begin()
        self.await_screen(r"PROGRAM$")
        for columns, lines, row, titles, not_titles in (
                (60, 12, r">.* 100\.0 MiB .* program_free", ("PID", "IN USE", "PROGRAM"), ("WAITING",)),
                (40, 10, r"> +\d+  100\.0 MiB program_free", ("PID", "IN USE", "PROGRAM"), ("PEAK",)),
                (30, 6, r"> +\d+  100\.0 MiB prog", ("PID", "IN USE"), ("PEAK",)),
                (12, 3, r"> +\d+  \.\.$", (), ("IN USE",)),
                (300, 40, rf"> +{process.pid} .*fill:100 wait 漢字", ("PID", "WAITING", "PROGRAM"), ())):
            self.tmux("resize-window", "-x", str(columns), "-y", str(lines))

            bottom = "q quit  ? help  sorted by IN USE"[:columns - 2]

            def fits():
                screen = self.screen().split("\n")
                return (screen[0].startswith("cubfc top") and screen[lines - 1].startswith(bottom) and
                        any(re.match(row, line) for line in screen) and all(title in "\n".join(screen) for title in titles) and
                        not any(title in "\n".join(screen) for title in not_titles))

            wait_until(fits, lambda: f"{columns} x {lines}:\n{self.screen()}")
        self.tmux("resize-window", "-x", "130", "-y", "30")
        self.type("q")
        self.assert_restored(0)

    def test_every_way_out_leaves_the_terminal_as_it_was(self):
        self.start("fill:100", "wait")
        self.begin()
        self.type("C-c")
        self.assert_restored(0)
        for end in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            top = self.begin()
            os.kill(top, end)
            self.await_without("^q quit")
            self.assert_restored(128 + end)
        for state, seen in (("Enter", "^pid "), ("?", "^any key")):
            top = self.begin()
            self.type(state)
            self.await_screen(seen)
            os.kill(top, signal.SIGTERM)
            self.await_without(seen)
            self.assert_restored(128 + signal.SIGTERM)
        top = self.begin()
        os.kill(top, signal.SIGTSTP)
        self.await_screen("Stopped")
        self.assertEqual(self.state_of_the_terminal(), self.before)
        self.type("fg", "Enter")
        self.await_screen("^q quit")
        os.kill(top, signal.SIGSTOP)
        wait_until(lambda: "\nState:\tT" in pathlib.Path(f"/proc/{top}/status").read_text(), self.screen)
        self.await_screen("Stopped")
        self.type("fg", "Enter")
        self.await_without("Stopped")
        self.type("?")
        self.await_screen("^any key")
        self.type("x", "q")
        self.assert_restored(0)
        self.begin()
        self.type("C-z")
        self.await_screen("Stopped")
        self.assertEqual(self.state_of_the_terminal(), self.before)
        self.type("fg", "Enter")
        self.await_screen("^q quit")
        self.await_without("READY>")
        self.type("q")
        self.assert_restored(0)

    def test_it_ends_with_its_terminal(self):
        self.start("fill:100", "wait")
        top = self.begin()
        self.tmux("kill-server")
        wait_until(lambda: not pathlib.Path(f"/proc/{top}/exe").exists(), lambda: f"the end of {top}")

    def test_without_colours_a_mark_does(self):
        process = self.start("fill:100", "wait")
        self.begin()
        self.await_rows([(True, process.pid)])
        self.assertRegex(self.screen("-e"), r"\x1b\[(0;)?7m")
        self.type("q")
        self.assert_restored(0)
        self.begin(environment="NO_COLOR=1")
        self.await_rows([(True, process.pid)])
        self.assertNotIn("\x1b", self.screen("-e"))
        self.type("q")
        self.assert_restored(0)

    def test_a_dumb_terminal_gets_plain_lines(self):
        process = self.start("fill:100", "wait")
        self.type("-l", f"TERM=dumb {self.cubfc} top --interval 0.2")
        self.type("Enter")
        self.await_screen(rf"(?s)^\d{{4}}-\d\d-\d\d .*^ +{process.pid} .*^\d{{4}}-\d\d-\d\d ")
        self.assertEqual(self.tmux("display-message", "-p", "#{alternate_on}"), "0\n")
        self.type("C-c")
        self.assertEqual(self.said("echo $?"), "130\n")


if __name__ == "__main__":
    if shutil.which("tmux") is None:
        print("tmux is not there: cubfc top is not tried on a terminal")
        sys.exit(77)
    run_tests(__doc__)
