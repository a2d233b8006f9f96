#!/usr/bin/env python3
"""`cubfc sleep` and `cubfc wake`, and CUBFC_SLEEP_AFTER, on processes on the software driver.

usage: command_test.py CUBFC LIBRARY DRIVER_FOLDER PROGRAMS_FOLDER
"""
import json
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from under_cubfc import UnderCubfc, run_tests, wait_until


class Sleep(UnderCubfc):
    def setUp(self):
        super().setUp()
        self.plain_library = self.library
        self.library = self.library.replace("libcubfc.so", "libcubfc_sleep.so")
        self.environment["CUBFC_SLEEP"] = "true"

    def ask(self, *words):
        done = self.run_cubfc(*words)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def end_of(self, process):
        process.stdin.close()
        status = process.wait(timeout=120)
        process.stdout.close()
        return status

    def test_to_sleep_and_back(self):
        process = self.start("fill:300", "wait")
        for _ in range(2):
            self.assertEqual(self.ask("sleep", str(process.pid)), (
                0, f"pid {process.pid}: asleep: 300.0 MiB of GPU memory given back; 300.0 MiB lie in the host's memory meanwhile\n"))
            self.assertEqual(self.ask("sleep", str(process.pid)), (
                0, f"pid {process.pid}: asleep: it is asleep already: 300.0 MiB of GPU memory given back; 300.0 MiB lie in the host's memory meanwhile\n"))
            self.assertEqual(self.ask("wake", str(process.pid)), (0, f"pid {process.pid}: awake: 300.0 MiB of GPU memory are back\n"))
            self.assertEqual(self.ask("wake", str(process.pid)), (0, f"pid {process.pid}: awake: it was awake\n"))
        self.assertEqual(self.end_of(process), 0)

    def test_the_recording_tells_when(self):
        trace = self.folder / "trace.cubfc"
        process = self.start("fill:300", "wait", CUBFC_TRACE=str(trace))
        for _ in range(2):
            self.assertEqual(self.ask("sleep", str(process.pid))[0], 0)
            self.assertEqual(self.ask("wake", str(process.pid))[0], 0)
        self.assertEqual(self.ask("sleep", str(process.pid))[0], 0)
        self.assertEqual(self.end_of(process), 0)
        told = json.loads(self.run_cubfc("report", str(trace), "--format", "json", "-o", "-").stdout)
        self.assertEqual((told["totals"]["sleeps"], told["totals"]["most_asleep_bytes"]), (3, 300 << 20))
        self.assertGreater(told["totals"]["asleep_ns"], 0)
        self.assertEqual(sum(told["faults"].values()), 0)
        asleep = [moment for moment in told["samples"] if moment["taken_bytes"] == 0 and moment["in_use_bytes"] == 300 << 20]
        self.assertGreater(len(asleep), 1)  # the blocks were live, and nothing was taken
        self.assertRegex(self.run_cubfc("report", str(trace), "--format", "text", "-o", "-").stdout,
                         r"(?m)^  asleep +3 times, .* in all, with 300\.0 MiB on the host")

    def test_another_has_the_memory_meanwhile(self):
        process = self.start("fill:3000", "wait")
        self.assertEqual(self.ask("sleep", str(process.pid))[0], 0)
        other = self.start("fill:3000", "wait")
        status, said = self.ask("wake", str(process.pid))
        self.assertEqual(status, 1)
        self.assertRegex(said, rf"^pid {process.pid}: not awake: its 2.93 GiB of GPU memory could not be brought back: .*OUT_OF_MEMORY; it sleeps on")
        [row] = [each for each in json.loads(self.run_cubfc("top", "--once", "--json").stdout)["processes"] if each["pid"] == process.pid]
        self.assertEqual((row["devices"][0]["num_refused"], row["devices"][0]["bytes_asleep"]), (1, 3000 << 20))
        self.assertEqual(self.ask("sleep", str(other.pid))[0], 0)  # who sleeps makes room
        self.assertEqual(self.ask("wake", str(process.pid))[0], 0)
        self.assertEqual((self.end_of(process), self.end_of(other)), (0, 0))

    def test_in_a_file(self):
        folder = self.folder / "asleep"
        folder.mkdir()
        self.give(folder)
        process = self.start("fill:100", "wait", CUBFC_SLEEP_HOST=str(folder))
        status, said = self.ask("sleep", str(process.pid))
        self.assertEqual((status, said.split("; ")[1]), (0, f"100.0 MiB lie in a file in {folder} meanwhile\n"))
        self.assertEqual(list(folder.iterdir()), [])  # it has no name
        self.assertEqual(self.ask("wake", str(process.pid))[0], 0)
        missing = self.start("fill:100", "wait", CUBFC_SLEEP_HOST=str(folder / "missing"))
        status, said = self.ask("sleep", str(missing.pid))
        self.assertEqual(status, 1)
        self.assertIn(f"do not fit into a file in {folder}/missing: No such file or directory", said)

    def test_after_a_time_without_a_call(self):
        process = self.start("fill:100", "wait", CUBFC_SLEEP_AFTER="50ms")
        self.assertIn("awake: ", self.ask("wake", str(process.pid))[1])
        wait_until(lambda: self.ask("wake", str(process.pid))[1].endswith("MiB of GPU memory are back\n"), lambda: "a sleep")

    def test_several_at_once_and_who_cannot(self):
        process = self.start("fill:100", "wait")
        plain = self.start("fill:100", "wait", LD_PRELOAD=self.plain_library)
        without = self.start("fill:100", "wait", CUBFC_SLEEP="false")
        regions = self.start("fill:100", "wait", CUBFC_ALLOCATOR="bfc")
        status, said = self.ask("sleep", *(str(each.pid) for each in (process, plain, without, regions)), "999999999")
        lines = said.splitlines()
        self.assertEqual(status, 1)
        self.assertRegex(lines[0], rf"^pid {process.pid}: asleep: ")
        for line, each in zip(lines[1:3], (plain, without)):
            self.assertEqual(line, f"pid {each.pid}: cannot sleep: it was not started by `cubfc run --sleep`, or has used no GPU memory yet")
        self.assertEqual(lines[3], f"pid {regions.pid}: not asleep: it has no memory of an arena under CUBFC_ALLOCATOR=vmm")
        self.assertEqual(lines[4], "pid 999999999: no such process of this user's runs under cubfc; `cubfc top --once` lists them")

    def test_who_is_killed_leaves_nothing(self):
        process = self.start("fill:300", "wait")
        self.assertEqual(self.ask("sleep", str(process.pid))[0], 0)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=120)
        self.assertEqual(self.ask("wake", str(process.pid))[0], 1)
        other = self.start("fill:300", "wait")  # it removes what is left
        self.assertEqual([path.name.split("-")[2] for path in (self.runtime / "cubfc").glob("sleep-*")], [str(other.pid)])
        self.assertEqual(self.end_of(other), 0)
        self.assertEqual(list((self.runtime / "cubfc").glob("sleep-*")), [])

    def test_the_command_names_the_library(self):
        done = self.run_cubfc("run", "--sleep", "--quiet", "--", "/bin/sh", "-c", "echo $LD_PRELOAD $CUBFC_SLEEP")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^/\S+/libcubfc_sleep\.so true\n$")
        both = self.run_cubfc("run", "--quiet", "--", "/bin/sh", "-c", "echo $LD_PRELOAD", LD_PRELOAD="/x/libcubfc_sleep.so:/x/other.so", CUBFC_SLEEP="false")
        self.assertRegex(both.stdout, r"^/x/other\.so:/\S+/libcubfc\.so\n$")


if __name__ == "__main__":
    run_tests(__doc__)
