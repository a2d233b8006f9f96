#!/usr/bin/env python3
"""`cubfc limit` on groups of processes on the software driver: what they see and get before and after, in each allocator.

usage: limit_test.py CUBFC LIBRARY DRIVER_FOLDER PROGRAMS_FOLDER
"""
import functools
import json
import os
import pathlib
import signal
import subprocess
import sys

TESTS = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(TESTS / "cli"), str(TESTS / "preload")]
from step_by_step import StepByStep
from under_cubfc import UnderCubfc, run_tests, wait_until

MODES = {
    "bfc": {},
    "deferred": {"CUBFC_FREE": "deferred"},
    "vmm": {"CUBFC_ALLOCATOR": "vmm"},
    "cuda_async": {"CUBFC_ALLOCATOR": "cuda_async"},
    "platform": {"CUBFC_ALLOCATOR": "platform"},
}
MIB = 1 << 20
OUT_OF_MEMORY = "error 2"


def in_each_mode(test):
    """Calls it with the settings of each, in a group of its own."""
    @functools.wraps(test)
    def run(self):
        for number, (name, mode) in enumerate(MODES.items()):
            self.group = f"job-{number}"
            with self.subTest(name):
                test(self, mode)
    return run


class Limit(UnderCubfc):
    def setUp(self):
        super().setUp()
        self.group = "job"

    def member(self, limit="2GiB", **more):
        program = StepByStep(self.programs, self.environment | {
            "LD_LIBRARY_PATH": self.driver, "LD_PRELOAD": self.library, "STANDIN_MEMORY": "4GiB",
            "STANDIN_SHARED": str(self.folder / "devices"), "CUBFC_GROUP": self.group, "CUBFC_GROUP_LIMIT": limit,
            **more}, **self.user)
        self.addCleanup(program.end)
        program.say("info")  # it has joined the group when it answers
        return program

    def limit(self, *words, group=None):
        """Of one GPU, in MiB: (limit before, limit, came back, taken, processes)."""
        device, = json.loads(self.output_of("limit", "--group", group or self.group, "--json", *words))["devices"]
        return (*(device[key] // MIB for key in ("limit_was_bytes", "limit_bytes", "bytes_came_back", "bytes_taken")),
                len(device["processes"]))

    def fill(self, program, mib):
        """Blocks of 64 MiB."""
        self.assertEqual([program.say("take 64") for _ in range(mib // 64)], ["ok"] * (mib // 64))

    @in_each_mode
    def test_raised_it_holds_at_once(self, mode):
        with self.member(**mode) as one, self.member(**mode) as other:
            self.assertEqual(one.info(), (2048, 2048))
            self.fill(one, 1920)
            self.assertEqual(other.say("take 256"), OUT_OF_MEMORY)
            self.assertEqual(self.limit("3GiB")[:2], (2048, 3072))
            self.assertEqual(other.say("take 1000"), "ok")
            self.assertEqual(other.say("take 256"), OUT_OF_MEMORY)
            self.assertEqual(one.info()[1], 2048)
            self.assertEqual(other.info()[1], 2048)
            # What is shown as free is there.
            self.assertLessEqual(one.info()[0], 3072 - 1920 - 1000)

    @in_each_mode
    def test_one_block_of_more_than_the_first_limit(self, mode):
        with self.member("1GiB", **mode) as program:
            self.assertEqual(program.say("take 1500"), OUT_OF_MEMORY)
            self.limit("2GiB")
            self.assertEqual(program.say("take 1500"), "ok")
            self.assertEqual(program.info()[1], 1024)
            self.assertEqual(program.say("take 1000"), OUT_OF_MEMORY)

    @in_each_mode
    def test_lowered_below_what_is_in_use(self, mode):
        with self.member(**mode) as one, self.member(**mode) as other:
            self.fill(one, 1024)
            self.fill(other, 512)
            self.assertEqual((one.info()[1], other.info()[1]), (2048, 2048))
            before, now, came_back, taken, processes = self.limit("1GiB")
            self.assertEqual((before, now, processes), (2048, 1024, 2))
            self.assertGreaterEqual(taken, 1536)
            for program in (one, other):
                self.assertEqual(program.info(), (0, 2048))
                self.assertEqual(program.say("take 64"), OUT_OF_MEMORY)
            with self.member(**mode) as late:
                self.assertEqual(late.info(), (0, 1024))
                self.assertEqual(late.say("take 64"), OUT_OF_MEMORY)
            # What they have freed they have again, not more, and nobody else.
                for _ in range(2):
                    self.assertEqual([one.say("give") for _ in range(4)], ["ok"] * 4)
                    self.assertEqual(late.say("take 64"), OUT_OF_MEMORY)
                    self.assertEqual(one.info()[0], 0)
                    self.fill(one, 256)
                    self.assertEqual(one.say("take 64"), OUT_OF_MEMORY)
                # Until less is in use than the limit.
                self.assertEqual([one.say("give") for _ in range(12)], ["ok"] * 12)
                if mode != MODES["cuda_async"]:  # a pool counts as taken until it is asked for what it keeps
                    self.assertEqual(late.info(), (256, 1024))
                self.assertEqual(late.say("take 250"), "ok")
                self.assertEqual(late.say("take 64"), OUT_OF_MEMORY)

    @in_each_mode
    def test_what_is_not_in_use_goes_back(self, mode):
        with self.member(**mode) as one, self.member(**mode) as other:
            self.fill(one, 1024)
            self.assertEqual([one.say("give") for _ in range(12)], ["ok"] * 12)
            self.fill(other, 128)
            before = self.limit()
            after = self.limit("512MiB")
            self.assertLessEqual(after[3], 512)
            self.assertEqual(after[2], before[3] - after[3])
            # It is not kept.
            self.assertEqual(one.info(), (128, 2048))
            self.assertEqual(one.say("take 256"), OUT_OF_MEMORY)
            self.assertEqual(one.say("take 120"), "ok")

    @in_each_mode
    def test_lowered_and_raised_again(self, mode):
        with self.member(**mode) as program:
            self.fill(program, 1024)
            self.limit("512MiB")
            self.limit("2GiB")
            self.assertEqual(program.info(), (1024, 2048))
            self.fill(program, 960)

    def test_who_joins_with_a_lower_limit_keeps_to_it(self):
        with self.member("2GiB") as one, self.member("512MiB") as lower:
            self.assertEqual((one.info(), lower.info()), ((2048, 2048), (512, 512)))
            text = self.output_of("limit", "--group", "job", "3GiB")
            self.assertRegex(text, rf"GPU 0: process {lower.process.pid} has joined with a limit of 512.0 MiB, and keeps to it")
            self.assertEqual(lower.say("take 600"), OUT_OF_MEMORY)
            self.assertEqual(one.say("take 2500"), "ok")

    def test_two_gpus(self):
        with self.member("2GiB", STANDIN_DEVICES="2") as program:
            self.assertEqual(program.info(), (2048, 2048))
            done = self.run_cubfc("limit", "--group", "job", "1=1GiB")
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("uses GPU 1", done.stderr)
            self.assertEqual(self.limit("0=1GiB")[:2], (2048, 1024))
            self.assertEqual(self.limit("50%")[:2], (1024, 2048))

    def test_a_process_that_shares_no_figures(self):
        with self.member(CUBFC_SHARE_STATS="false") as program:
            self.assertEqual(program.info()[1], 2048)
            self.assertRegex(self.output_of("limit", "--group", "job", "1GiB"), r"GPU-[0-9a-f-]{36} +2.00 GiB +1.00 GiB ")
            self.assertEqual(program.info(), (1024, 2048))
            done = self.run_cubfc("limit", "--group", "job", "25%")
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("give the limit as a size", done.stderr)

    def test_a_stopped_process_is_not_waited_for(self):
        with self.member() as one, self.member() as other:
            self.fill(one, 1024)
            self.assertEqual([one.say("give") for _ in range(16)], ["ok"] * 16)
            self.fill(other, 256)
            os.kill(one.process.pid, signal.SIGSTOP)
            try:
                self.assertEqual(self.limit("512MiB")[:2], (2048, 512))
            finally:
                os.kill(one.process.pid, signal.SIGCONT)
            self.assertEqual(other.info()[1], 2048)

    def test_what_is_freed_while_the_command_waits_is_kept(self):
        """For a second: it asks a process that is stopped."""
        with self.member(CUBFC_ALLOCATOR="platform") as one, self.member() as other:
            self.fill(one, 1536)
            self.assertEqual(other.info()[1], 2048)
            os.kill(other.process.pid, signal.SIGSTOP)
            try:
                command = subprocess.Popen([self.cubfc, "limit", "--group", self.group, "512MiB"],
                                           env=self.environment, stdout=subprocess.PIPE, text=True, **self.user)
                wait_until(lambda: one.info()[0] == 0, lambda: str(one.info()))
                self.assertEqual([one.say("give") for _ in range(8)], ["ok"] * 8)
                command.communicate(timeout=60)
            finally:
                os.kill(other.process.pid, signal.SIGCONT)
            self.fill(one, 512)

    def test_who_counts_the_gpus_differently(self):
        two = {"STANDIN_DEVICES": "2"}
        with self.member(**two) as one, self.member(**two, CUDA_VISIBLE_DEVICES="1") as other:
            self.assertEqual((one.info(), other.info()), ((2048, 2048), (2048, 2048)))
            devices = json.loads(self.output_of("limit", "--group", "job", "--json"))["devices"]
            self.assertEqual([device["number"] for device in devices], [None, None])
            done = self.run_cubfc("limit", "--group", "job", "0=1GiB")
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("or they count GPUs differently (CUDA_VISIBLE_DEVICES)", done.stderr)
            self.assertEqual(self.run_cubfc("limit", "--group", "job", "1GiB").returncode, 0)
            self.assertEqual((one.info(), other.info()), ((1024, 2048), (1024, 2048)))

    def test_a_share_of_less_than_a_byte(self):
        with self.member() as program:
            self.assertEqual(program.info()[1], 2048)
            done = self.run_cubfc("limit", "--group", "job", "0.00000001%")
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("is less than a byte", done.stderr)
            self.assertEqual(program.info(), (2048, 2048))

    def test_a_member_that_allocates_in_no_arena_is_shown_too(self):
        with self.member(CUBFC_ALLOCATOR="platform") as program:
            self.fill(program, 256)
            self.limit("1GiB")
            wait_until(lambda: "group job  1.00 GiB" in self.output_of("top", "--once"),
                       lambda: self.output_of("top", "--once"))

    def test_who_looks_on_sees_it(self):
        with self.member() as program:
            self.fill(program, 256)
            self.limit("1GiB")

            def shown():
                device = json.loads(self.output_of("top", "--once", "--json"))["processes"][0]["devices"][0]
                return (device["bytes_limit"], device["group"]["limit_bytes"]) == (1 << 30, 1 << 30)
            wait_until(shown, lambda: self.output_of("top", "--once"))
            self.assertIn("group job  1.00 GiB", self.output_of("top", "--once"))
            self.assertRegex(self.output_of("metrics"), r"cubfc_group_limit_bytes\{.*\} 1073741824\n")
            done = self.run_cubfc("check", "--enforced", str(program.process.pid))
            self.assertEqual(done.returncode, 0)
            self.assertIn("1.00 GiB of GPU 0 (CUBFC_GROUP_LIMIT, group job)", done.stdout)

    def test_a_refused_request_says_so(self):
        program = self.member(CUBFC_LOG_LEVEL="info")
        self.fill(program, 256)
        self.limit("512MiB")
        self.assertEqual(program.say("take 600"), OUT_OF_MEMORY)
        self.assertEqual(program.say("take 400"), OUT_OF_MEMORY)
        said = program.end()[1]
        self.assertIn("larger than the limit (512.0 MiB of group job, changed by `cubfc limit`); try a higher limit, "
                      "at least `cubfc limit --group job 860MiB`", said)
        self.assertRegex(said, r"group +job: .* of 512.0 MiB taken by 1 process")
        with self.member(), self.member("256MiB", CUBFC_LOG_LEVEL="info") as lower:
            self.assertEqual(lower.info()[1], 256)
            self.limit("3GiB")
            self.assertEqual(lower.say("take 300"), OUT_OF_MEMORY)
            self.assertIn("larger than the limit of 256.0 MiB (CUBFC_GROUP_LIMIT); try a higher limit, at least CUBFC_GROUP_LIMIT=304MiB",
                          lower.end()[1])

    def test_the_text(self):
        with self.member() as program:
            self.fill(program, 512)
            rows = self.output_of("limit", "--group", "job").splitlines()
            self.assertEqual(rows[0].split(), ["GPU", "LIMIT", "WAS", "LIMIT", "CAME", "BACK", "TAKEN", "PROCESSES"])
            self.assertRegex(rows[1], r"^  0 +2.00 GiB +2.00 GiB +0 B +\d+\.\d [MG]iB +1$")
            self.assertEqual(len(rows), 2)
            rows = self.output_of("limit", "--group", "job", "256MiB").splitlines()
            self.assertRegex(rows[2], r"^GPU 0: \d+\.\d MiB more than the limit is taken; its processes keep what of it is in use")

    def test_nobody_is_there(self):
        with self.member():
            pass
        for words in (["job"], ["job", "1GiB"], ["other"]):
            done = self.run_cubfc("limit", "--group", *words)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("no process of this user's and of this XDG_RUNTIME_DIR runs in a group", done.stderr)

    def test_command_lines(self):
        for words in ([], ["1GiB"], ["--group"], ["--group", "a/b"], ["--group", "job", "0"], ["--group", "job", "x"],
                      ["--group", "job", "1GiB", "2GiB"], ["--group", "job", "-1GiB"], ["--group", "job", "0=1GiB,0=2GiB"],
                      ["--group", "job", "--none"]):
            done = self.run_cubfc("limit", *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertRegex(done.stderr, "^(cubfc: limit: |--group: |The following argument )", words)


if __name__ == "__main__":
    run_tests(__doc__)
