#!/usr/bin/env python3
"""`cubfc metrics` and `cubfc top --once` on processes on the software driver: the figures are what the processes have
asked for, whoever tells them; and files in which anything may stand do no harm.

usage: figures_test.py CUBFC LIBRARY DRIVER_FOLDER PROGRAMS_FOLDER
"""
import fcntl
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from under_cubfc import UnderCubfc, read_metrics, run_tests, wait_until

MIB = 1 << 20


class Figures(UnderCubfc):
    def look(self, *words):
        return json.loads(self.output_of("top", "--once", "--json", *words))

    def lock(self, path, contents):
        """A file as a process would have it that keeps its figures there."""
        self.write(path, contents)
        file = path.open("rb")
        self.addCleanup(file.close)
        fcntl.flock(file, fcntl.LOCK_EX)
        return file

    def test_metrics_are_what_was_asked_for(self):
        first = self.start("fill:700", "wait", CUBFC_LABELS="pod=trainer-0,pid=7", CUBFC_MEM_LIMIT="2GiB")
        second = self.start("holes:200", "wait", CUBFC_PREALLOCATE="false")
        metrics = read_metrics(self.output_of("metrics"))
        self.assertEqual(metrics["cubfc_processes"], [({}, 2)])
        self.assertEqual(metrics["cubfc_unusable_files"], [({}, 0)])
        labels = {value["pid"]: value for value, _ in metrics["cubfc_active"]}
        self.assertEqual(set(labels), {str(first.pid), str(second.pid)})
        self.assertEqual(labels[str(first.pid)]["program"], "program_free_memory")
        self.assertEqual(labels[str(first.pid)]["host"], os.uname().nodename)
        self.assertEqual(labels[str(first.pid)]["pod"], "trainer-0")
        self.assertRegex(labels[str(first.pid)]["gpu_uuid"], r"^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
        self.assertEqual(labels[str(first.pid)]["exported_pid"], "7")
        self.assertNotIn("pod", labels[str(second.pid)])

        def of(process, name, **more):
            return [value for found, value in metrics[name]
                    if found["pid"] == str(process.pid) and more.items() <= found.items()]

        self.assertEqual(of(first, "cubfc_in_use_bytes"), [700 * MIB])
        self.assertEqual(of(first, "cubfc_peak_in_use_bytes"), [700 * MIB])
        self.assertEqual(of(first, "cubfc_limit_bytes"), [2048 * MIB])
        gpu = {name: labels[str(first.pid)][name] for name in ("gpu", "gpu_uuid")}
        self.assertEqual(metrics["cubfc_device_bytes"], [(gpu, 4096 * MIB)])
        self.assertEqual(of(first, "cubfc_allocations_total"), [7])
        self.assertEqual(of(first, "cubfc_refused_total"), [0])
        self.assertEqual(of(second, "cubfc_in_use_bytes"), [100 * MIB])
        self.assertEqual(of(second, "cubfc_peak_in_use_bytes"), [200 * MIB])
        self.assertEqual(of(second, "cubfc_limit_bytes"), [])
        self.assertEqual(of(second, "cubfc_frees_total"), [100])
        self.assertEqual(of(second, "cubfc_memory_in_use_bytes", memory="arena"), [100 * MIB])
        self.assertEqual(sum(of(second, "cubfc_memory_in_use_bytes")), 100 * MIB)
        self.assertEqual(of(second, "cubfc_caller_in_use_bytes", caller="program_free_memory"), [100 * MIB])
        self.assertGreaterEqual(of(second, "cubfc_taken_bytes")[0], 100 * MIB)
        self.assertGreater(of(second, "cubfc_fragmentation_ratio")[0], 0)

    def test_groups_are_told_by_all(self):
        summary = self.folder / "summary.json"
        settings = {"CUBFC_GROUP": "job-7", "CUBFC_GROUP_LIMIT": "2GiB"}
        trace = self.folder / "trace"
        first = self.start("fill:900", "wait", CUBFC_SUMMARY=str(summary), CUBFC_TRACE=str(trace), **settings)
        second = self.start("fill:300", "wait", CUBFC_MEM_LIMIT="1GiB", **settings)
        alone = self.start("fill:100", "wait", CUBFC_PREALLOCATE="false")
        lines = self.output_of("top", "--once").splitlines()
        self.assertRegex(lines[2], r"^group job-7  2\.00 GiB  2 processes: 1\.\d\d GiB taken \(\d\d\.\d %\)$")
        self.assertEqual(lines[3].split()[-2:], ["GROUP", "PROGRAM"])
        rows = {int(line.split()[0]): line for line in lines[4:]}
        for process, limit, group in ((first, "2.00 GiB", "job-7"), (second, "1.00 GiB", "job-7"), (alone, "none", "-")):
            self.assertRegex(rows[process.pid], rf" {re.escape(limit)} .* {group} ")
        groups = {process["pid"]: process["devices"][0]["group"] for process in self.look()["processes"]}
        job = {"name": "job-7", "limit_bytes": 2048 * MIB}
        self.assertEqual(groups, {first.pid: job, second.pid: job, alone.pid: None})
        metrics = read_metrics(self.output_of("metrics"))
        self.assertEqual({(labels["pid"], labels.get("group")) for labels, _ in metrics["cubfc_in_use_bytes"]},
                         {(str(first.pid), "job-7"), (str(second.pid), "job-7"), (str(alone.pid), None)})
        [(labels, limit)] = metrics["cubfc_group_limit_bytes"]
        self.assertEqual((set(labels), labels["group"], limit), ({"gpu", "gpu_uuid", "user", "group"}, "job-7", 2048 * MIB))
        self.assertEqual([(labels["pid"], value) for labels, value in metrics["cubfc_limit_bytes"]],
                         [(str(second.pid), 1024 * MIB)])
        self.end(first)
        self.assertEqual(json.loads(summary.read_text())["devices"][0]["group"], job)
        self.assertIn("  group     job-7: 2GiB for all its processes\n", self.output_of("report", str(trace), "--text"))

    def test_all_tell_the_same_of_a_process_at_rest(self):
        summary = self.folder / "summary.json"
        process = self.start("holes:300", "wait", CUBFC_SUMMARY=str(summary), CUBFC_MEM_FRACTION="0.5")
        # Until a thread of cubfc's has brought up to date what is written now and then.
        device = wait_until(lambda: (lambda one, two: one if one == two else None)(
            self.look()["processes"][0]["devices"][0], self.look()["processes"][0]["devices"][0]), self.look)
        metrics = read_metrics(self.output_of("metrics"))
        self.end(process)
        told = json.loads(summary.read_text())["devices"][0]
        for name in ("number", "uuid", "name", "total_bytes", "bytes_limit", "limit_origin", "group", "allocator", "free",
                     "bytes_in_use", "peak_bytes_in_use", "bytes_taken", "peak_bytes_taken", "num_allocs", "num_frees",
                     "num_failures", "num_refused", "driver_calls", "num_free_waits", "ns_free_waits", "memory", "callers"):
            self.assertEqual(device[name], told[name], name)
        self.assertEqual(device["bytes_in_use"], 150 * MIB)
        for metric, name in (("in_use_bytes", "bytes_in_use"), ("peak_in_use_bytes", "peak_bytes_in_use"),
                             ("limit_bytes", "bytes_limit"), ("device_bytes", "total_bytes"),
                             ("waiting_bytes", "bytes_waiting"), ("idle_bytes", "bytes_idle"),
                             ("reserved_bytes", "bytes_reserved"), ("taken_bytes", "bytes_taken"),
                             ("peak_taken_bytes", "peak_bytes_taken"), ("allocations_total", "num_allocs"),
                             ("frees_total", "num_frees"), ("refused_total", "num_refused"),
                             ("driver_calls_total", "driver_calls")):
            self.assertEqual([value for _, value in metrics["cubfc_" + metric]], [device[name]], name)
        self.assertEqual({labels["memory"]: value for labels, value in metrics["cubfc_memory_in_use_bytes"]},
                         {name: memory["bytes_in_use"] for name, memory in device["memory"].items()})

    def test_frees_that_wait_for_the_gpu_are_told_by_all(self):
        summary, trace = self.folder / "summary.json", self.folder / "run.cubfc"
        process = self.start("freed:300", "wait", CUBFC_SUMMARY=str(summary), CUBFC_TRACE=str(trace),
                             STANDIN_LATENCY="cuCtxSynchronize=40ms")
        device = self.look()["processes"][0]["devices"][0]
        metrics = read_metrics(self.output_of("metrics"))
        self.end(process)
        self.assertEqual(device["num_free_waits"], 3)
        self.assertGreaterEqual(device["ns_free_waits"], 3 * 40_000_000 * 0.9)
        self.assertEqual(metrics["cubfc_free_waits_total"][0][1], 3)
        self.assertAlmostEqual(metrics["cubfc_free_wait_seconds_total"][0][1], device["ns_free_waits"] / 1e9)
        told = json.loads(summary.read_text())["devices"][0]
        report = json.loads(self.output_of("report", str(trace), "--format", "json", "-o", "-"))["totals"]
        for waits, time in ((told["num_free_waits"], told["ns_free_waits"]), (report["waits"], report["waited_ns"])):
            self.assertEqual((waits, time), (3, device["ns_free_waits"]))

    def test_once_is_one_plain_table(self):
        first = self.start("fill:700", "wait", "\x1b[31mred", "漢字\n")
        second = self.start("fill:100", "wait")
        text = self.output_of("top", "--once")
        self.assertNotIn("\x1b", text)
        lines = text.splitlines()
        self.assertRegex(lines[0], r"^GPU 0  standin software GPU  4\.00 GiB  2 processes: 800\.0 MiB in use, ")
        self.assertRegex(lines[1], r"^\[█+▓+\?+\]  █ 800\.0 MiB in use  ▓ [\d.]+ \w+ unused  \? [\d.]+ \w+ others or free, not known")
        self.assertEqual(lines[2].split(), ["PID", "IN", "USE", "IDLE", "RESERVED", "TAKEN", "PEAK", "LIMIT", "FRAG",
                                            "ALLOC/S", "BLOCKED", "REFUSED", "WAITING", "NOTE", "PROGRAM"])
        self.assertRegex(lines[3], rf"^ +{first.pid}  700\.0 MiB .*program_free_memory fill:700 wait \?\[31mred 漢字\?$")
        self.assertRegex(lines[4], rf"^ +{second.pid}  100\.0 MiB ")
        self.assertEqual(len(lines), 5)
        ascii_text = self.output_of("top", "--once", LC_ALL="C")
        self.assertTrue(ascii_text.isascii())
        self.assertIn(" red ??????", ascii_text.replace("?[31m", " "))
        self.assertIn("\n[##", ascii_text)

    def test_into_a_pipe_or_a_file_there_is_one_table(self):
        process = self.start("fill:100", "wait")
        text = self.output_of("top")
        self.assertEqual(text, self.output_of("top", "--once"))
        self.assertRegex(text, rf"(?m)^ +{process.pid}  100\.0 MiB ")
        self.assertNotRegex(text, r"[\x00-\x09\x0b-\x1f\x7f]")
        with (self.folder / "written").open("w+") as file:
            subprocess.run([self.cubfc, "top"], env=self.environment | {"TERM": "xterm-256color"}, stdin=subprocess.DEVNULL,
                           stdout=file, timeout=120, check=True, **self.user)
            file.seek(0)
            self.assertEqual(file.read(), text)

    def test_what_needs_a_look_is_told_in_words(self):
        full = self.start("fill:1000", "wait", CUBFC_MEM_LIMIT="1GiB")
        idle = self.start("freed:1000", "wait", CUBFC_PREALLOCATE="false")
        calm = self.start("fill:100", "wait", CUBFC_PREALLOCATE="false")
        text = self.output_of("top", "--once")
        for process, note in ((full, "near limit"), (idle, "much idle"), (calm, "-")):
            self.assertRegex(text, rf"(?m)^ +{process.pid} .* {note} +\S+/program_free_memory ")

    def test_named_processes_alone_are_shown(self):
        processes = [self.start("fill:100", "wait") for _ in range(3)]
        words = [word for process in processes[:2] for word in ("--pid", str(process.pid))]
        self.assertEqual([process["pid"] for process in self.look(*words)["processes"]],
                         sorted(process.pid for process in processes[:2]))
        done = self.run_cubfc("top", "--once", "--pid", str(os.getpid()))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("--pid", done.stderr)

    def test_wrong_options_are_told(self):
        for words in (["--interval", "0"], ["--interval", "x"], ["--pid", "0"], ["--pid", "you"], ["more"]):
            done = self.run_cubfc("top", *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
        self.assertIn("cubfc top --once --json", self.output_of("top", "--help"))

    def test_where_there_is_no_process_it_is_said_what_to_check(self):
        text = self.output_of("top", "--once")
        for word in ("No process", "LD_PRELOAD", "CUBFC_SHARE_STATS=false", "container"):
            self.assertIn(word, text)
        self.assertEqual(self.look()["processes"], [])
        self.assertEqual(read_metrics(self.output_of("metrics"))["cubfc_processes"], [({}, 0)])
        self.start("fill:100", "wait", CUBFC_SHARE_STATS="false")
        self.assertEqual(self.look()["processes"], [])

    def test_without_a_terminal_the_looks_follow_each_other(self):
        process = self.start("fill:100", "wait")
        for words, pattern in ((["--json"], rf'^{{"time_unix_ns":\d+,.*"pid":{process.pid},'), ([], r"^\d{4}-\d\d-\d\d \d\d:")):
            command = [self.cubfc, "top", "--interval", "0.1", *words]
            with subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  text=True, **self.user) as top:
                found = 0
                while found < 3:
                    line = top.stdout.readline()
                    self.assertNotIn("\x1b", line)
                    self.assertTrue(line)
                    found += re.match(pattern, line) is not None
                if words:
                    rate = json.loads(line)["processes"][0]["devices"][0]["allocs_per_second"]
                    self.assertEqual(rate, 0.0)
                top.terminate()

    def test_a_file_of_metrics_is_whole_at_every_moment(self):
        self.start("fill:100", "wait")
        path = self.folder / "cubfc.prom"
        self.output_of("metrics", "-o", str(path))
        done, looks, wrong = threading.Event(), [], []

        def read():
            while not done.is_set():
                try:
                    looks.append(len(read_metrics(path.read_text())["cubfc_active"]))
                except (AssertionError, OSError) as error:
                    wrong.append(error)

        reader = threading.Thread(target=read)
        reader.start()
        for _ in range(30):
            self.output_of("metrics", "-o", str(path))
        done.set()
        reader.join()
        self.assertEqual((wrong, set(looks)), ([], {1}))
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("cubfc.prom")], ["cubfc.prom"])
        failed = self.run_cubfc("metrics", "-o", str(self.folder / "no" / "where.prom"))
        self.assertEqual((failed.returncode, failed.stdout), (1, ""))
        self.assertIn("where.prom", failed.stderr)

    def test_files_that_are_no_figures_are_told_or_left_alone(self):
        self.start("fill:100", "wait")
        own = self.files()[0]
        contents, folder = own.read_bytes(), own.parent
        self.lock(folder / "figures-5-1-short", contents[:5000])
        self.lock(folder / "figures-5-2-empty", b"")
        self.lock(folder / "figures-5-3-other\x1b[2J", b"\xff" * len(contents))
        self.lock(folder / "figures-5-4-begins", bytes(len(contents)))
        self.lock(folder / "figures-1-5-another-version", contents)
        self.write(folder / "figures-5-6-of-the-dead", contents)
        (folder / "figures-5-7-link").symlink_to(own)
        os.mkfifo(folder / "figures-5-8-fifo")
        (folder / "figures-5-9-folder").mkdir()
        done = self.run_cubfc("metrics")
        self.assertEqual(done.returncode, 0)
        self.assertNotIn("\x1b", done.stderr)
        told = sorted(line.split("/")[-1] for line in done.stderr.splitlines())
        self.assertEqual([line[:17] for line in told], ["figures-5-1-short", "figures-5-2-empty", "figures-5-3-other"])
        self.assertIn("ends at byte 5000", told[0])
        metrics = read_metrics(done.stdout)
        self.assertEqual((metrics["cubfc_processes"], metrics["cubfc_unusable_files"]), ([({}, 1)], [({}, 3)]))
        look = self.run_cubfc("top", "--once", "--json")
        self.assertEqual(len(json.loads(look.stdout)["unusable_files"]), 3)

    def test_figures_in_which_anything_stands_do_no_harm(self):
        process = self.start("holes:100", "wait")
        own = self.files()[0]
        chance = random.Random(1)
        contents = own.read_bytes()
        for _ in range(20):
            changed = bytearray(contents)
            for _ in range(chance.choice((1, 30, 3000))):
                at = chance.randrange(16, len(changed))
                piece = bytes(chance.choice((0, 1, 0x22, 0x5C, 0x0A, 0x80, 0xFF)) for _ in range(chance.randrange(1, 9)))
                changed[at:at + len(piece)] = piece[:len(changed) - at]
            with self.lock(own.parent / "figures-5-1-changed", bytes(changed)):
                metrics = read_metrics(self.output_of("metrics"))
                self.assertEqual(metrics["cubfc_processes"], [({}, 2)])
                self.assertIn(process.pid, [each["pid"] for each in self.look()["processes"]])
                self.assertNotRegex(self.output_of("top", "--once"), r"[\x00-\x09\x0b-\x1f\x7f]")
        # The same once more, from what looks like another container.
        with self.lock(own.parent / "figures-5-1-copy", contents):
            self.assertEqual(len(read_metrics(self.output_of("metrics"))["cubfc_active"]), 2)


if __name__ == "__main__":
    run_tests(__doc__)
