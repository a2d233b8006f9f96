#!/usr/bin/env python3
"""`cubfc trim` on processes on the software driver: what comes back, who keeps what it has, who does not answer.

usage: trim_test.py CUBFC LIBRARY DRIVER_FOLDER PROGRAMS_FOLDER
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from under_cubfc import UnderCubfc, run_tests, wait_until

GIB = 1 << 30
SIZE = r"(\d+(?:\.\d+)? (?:B|KiB|MiB|GiB))"
ROW = re.compile(r"\s*(\d+)\s+(\d+)\s+(?:" + SIZE + r"|(no answer))\s+" + SIZE + r"\s+" + SIZE + r"  (.*)")


class Trim(UnderCubfc):
    def trim(self, *words):
        done = self.run_cubfc("trim", *words)
        self.assertEqual(done.stderr, "")
        lines = done.stdout.splitlines()
        rows = [ROW.fullmatch(line) for line in lines if ROW.fullmatch(line)]
        rest = [line for line in lines[1 if rows else 0:] if not ROW.fullmatch(line)]
        return done.returncode, {int(row[1]): row for row in rows}, rest

    def taken_by(self, process):
        processes = json.loads(self.output_of("top", "--once", "--json"))["processes"]
        return next(each["devices"][0]["bytes_taken"] for each in processes if each["pid"] == process.pid)

    def test_what_is_unused_comes_back(self):
        process = self.start("fill:100", "wait")
        other = self.start("freed:200", "wait", CUBFC_PREALLOCATE="false")
        before = self.taken_by(process)
        self.assertGreater(before, GIB)
        status, rows, rest = self.trim(str(process.pid))
        self.assertEqual((status, rest, list(rows)), (0, [], [process.pid]))
        after = self.taken_by(process)
        self.assertLess(after, 200 << 20)
        self.assertEqual(rows[process.pid][3], f"{(before - after) / GIB:.2f} GiB")
        self.assertEqual(rows[process.pid][5], "100.0 MiB")
        self.assertEqual(self.trim(str(process.pid))[1][process.pid][3], "0 B")
        self.assertGreater(self.taken_by(other), 0)

    def test_what_came_back_is_what_is_no_longer_taken(self):
        """Also where the steps in which memory is given are no whole number of the pieces in which it is held."""
        process = self.start("fill:1000", "wait", STANDIN_MEMORY="24GiB")
        before = self.taken_by(process)
        _, rows, _ = self.trim(str(process.pid))
        self.assertEqual(rows[process.pid][3], f"{(before - self.taken_by(process)) / GIB:.2f} GiB")

    def test_all_of_it(self):
        process = self.start("freed:2000", "wait")
        self.assertEqual(self.trim(str(process.pid))[0], 0)
        self.assertEqual(self.taken_by(process), 0)

    def test_all(self):
        processes = [self.start("fill:100", "wait", CUBFC_PREALLOCATE_LIMIT="1GiB") for _ in range(3)]
        status, rows, rest = self.trim("--all")
        self.assertEqual((status, rest, sorted(rows)), (0, [], sorted(each.pid for each in processes)))

    def test_who_is_firm_keeps_what_it_has(self):
        firm = self.start("fill:100", "wait", CUBFC_MEM_FRACTION="0.5")
        before = self.taken_by(firm)
        status, rows, rest = self.trim(str(firm.pid))
        self.assertEqual((status, rows), (1, {}))
        self.assertRegex("\n".join(rest), rf"\Apid {firm.pid}: cannot be asked: it holds what it has")
        self.assertEqual(self.taken_by(firm), before)
        soft = self.start("fill:100", "wait")
        status, rows, rest = self.trim("--all")
        self.assertEqual((status, list(rows), len(rest)), (1, [soft.pid], 1))

    def test_whose_a_process_is_that_root_does_not_ask(self):
        if not self.user:
            self.skipTest("only root sees another user's processes")
        del self.environment["XDG_RUNTIME_DIR"]  # then it is a place where root looks
        process, user = self.start("fill:100", "wait"), self.user["user"]
        self.addCleanup(shutil.rmtree, f"/dev/shm/cubfc-{user}", ignore_errors=True)
        done = subprocess.run([self.cubfc, "trim", "--all"], env=self.environment, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertIn(f"pid {process.pid}: not asked: it is {user}'s; `sudo -u {user} cubfc trim {process.pid}` asks it\n", done.stdout)

    def test_who_is_stopped_does_not_answer(self):
        process = self.start("fill:100", "wait")
        os.kill(process.pid, signal.SIGSTOP)
        self.addCleanup(os.kill, process.pid, signal.SIGCONT)

        def states():  # each thread stops by itself
            return {task.read_text().rpartition(")")[2].split()[0] for task in pathlib.Path(f"/proc/{process.pid}/task").glob("*/stat")}
        wait_until(lambda: states() == {"T"}, states)
        status, rows, _ = self.trim("--all")
        self.assertEqual((status, rows[process.pid][4]), (1, "no answer"))

    def test_two_devices(self):
        process = self.start("second", "wait", STANDIN_DEVICES="2")
        status, rows, rest = self.trim(str(process.pid))
        self.assertEqual((status, rest, list(rows)), (0, [], [process.pid]))

    def test_a_process_that_shares_no_figures(self):
        process = self.start("fill:100", "wait", CUBFC_SHARE_STATS="false")
        done = self.run_cubfc("trim", str(process.pid))
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, rf"{process.pid} +\? +\d+\.\d\d GiB +\? +\?  \(its figures are not shared\)")

    def test_the_program_goes_on(self):
        process = self.start("freed:1000", "wait")
        for _ in range(3):
            self.assertEqual(self.trim("--all")[0], 0)
        process.stdin.close()
        self.assertEqual(process.wait(timeout=60), 0)
        process.stdout.close()

    def test_nobody_is_there(self):
        for words in (["--all"], ["1"], ["999999999"]):
            done = self.run_cubfc("trim", *words)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("no process", done.stderr)
        self.assertEqual(list(self.runtime.rglob("*.*")), [])

    def test_command_lines(self):
        for words in ([], ["--all", "1"], ["0"], ["-1"], ["x"], ["1", "2"], ["--none"], ["99999999999999"]):
            done = self.run_cubfc("trim", *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)


if __name__ == "__main__":
    run_tests(__doc__)
