#!/usr/bin/env python3
"""`cubfc compare`, as a user calls it, on the software driver.

usage: compare_test.py CUBFC LIBRARY DRIVER_FOLDER PROGRAMS_FOLDER
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

from clean_environment import clean_environment

CUBFC, LIBRARY, DRIVER, PROGRAMS = (pathlib.Path(argument) for argument in sys.argv[1:5])


def compare(*arguments, stdin=""):
    environment = clean_environment(LD_LIBRARY_PATH=str(DRIVER), STANDIN_MEMORY="1GiB")
    return subprocess.run([CUBFC, "compare", "--library", LIBRARY, *arguments], input=stdin, text=True,
                          capture_output=True, timeout=300, env=environment, check=False)


class Compare(unittest.TestCase):
    def test_a_program_that_is_not_changed_is_equal_in_every_mode(self):
        ended = compare("--", PROGRAMS / "program_linked_driver")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertIn("equal in every mode", ended.stdout)
        for mode in ("disabled", "platform", "default", "grown", "deferred", "vmm", "cuda_async", "stream_ordered"):
            self.assertRegex(ended.stdout, rf"(?m)^{mode} +0 +equal +equal ")

    def test_what_differs_is_shown_and_where_it_does_not(self):
        script = 'case $LD_PRELOAD in *cubfc*) case $CUBFC_FREE in deferred) echo other; exit 4;; esac;; esac; echo same'
        ended = compare("--", "sh", "-c", script)
        self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)
        self.assertRegex(ended.stdout, r"(?m)^deferred +4 +differs +equal ")
        self.assertIn("differs in: deferred; not in: disabled, platform", ended.stdout)
        self.assertIn("+other", ended.stdout)

    def test_the_preload_itself_is_told_from_the_arena(self):
        ended = compare("--only", "disabled,default", "--", "sh", "-c", "echo ${LD_PRELOAD:+preloaded}")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("also where cubfc is switched off", ended.stdout)

    def test_what_is_different_every_time_does_not_count(self):
        ended = compare("--only", "default", "--", "sh", "-c", "date +%N; echo fixed")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertIn("different every time were left out", ended.stdout)
        with tempfile.TemporaryDirectory() as folder:
            flag = pathlib.Path(folder, "flag")
            ended = compare("--only", "default", "--", "sh", "-c", f"[ -e {flag} ] && exit 1; touch {flag}")
            self.assertEqual(ended.returncode, 3, ended.stdout + ended.stderr)

    def test_stdin_goes_to_every_run_and_what_hangs_is_ended(self):
        self.assertEqual(compare("--only", "default,vmm", "--", "grep", "-c", "a", stdin="a\nb\na\n").returncode, 0)
        ended = compare("--only", "default", "--timeout", "0.3", "--", "sleep", "30")
        self.assertIn("late", ended.stdout)
        self.assertEqual(ended.returncode, 3)

    def test_what_only_looks_equal_differs(self):
        told = 'if [ -n "$CUBFC_SHOW_STATS" ]; then {}; else {}; fi'
        for with_it, without in (("echo PASS; echo FAIL", "echo PASS; echo PASS"), ("echo b; echo a", "echo a; echo b"),
                                 ("printf '\\376\\n'", "printf '\\377\\n'"), ("printf 'a\\r\\n'", "printf 'a\\n'"),
                                 ("date +%N; echo more; echo x", "date +%N; echo x")):
            ended = compare("--only", "default", "--", "sh", "-c", told.format(with_it, without))
            self.assertEqual(ended.returncode, 1, with_it + ended.stdout)

    def test_what_only_looks_different_is_equal(self):
        for script in ("printf '\\r100%% done' >&2", "echo 'x' >&2; echo '  indented' >&2", "kill -40 $$", "yes step | head -20000"):
            ended = compare("--only", "default", "--", "sh", "-c", script)
            self.assertEqual(ended.returncode, 0, script + ended.stdout[:300] + ended.stderr[:300])

    def test_a_daemon_that_stays_is_not_waited_for(self):
        with tempfile.TemporaryDirectory() as folder:
            pids = pathlib.Path(folder, "pids")
            daemon = f"setsid sh -c 'echo $$ >> {pids}; exec sleep 1000' & until [ -s {pids} ]; do sleep 0.01; done; echo x"
            ended = compare("--only", "default", "--", "sh", "-c", daemon)  # less than 300 s
            self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
            for pid in pids.read_text().split():
                os.kill(int(pid), signal.SIGKILL)

    def test_report_and_json_are_written(self):
        with tempfile.TemporaryDirectory() as folder:
            report, table = pathlib.Path(folder, "report"), pathlib.Path(folder, "table")
            ended = compare("--only", "default", "--report", report, "--json", table, "--",
                            PROGRAMS / "program_free_memory", "small", "ask:2000")
            self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
            self.assertIn("out of memory on GPU 0", report.read_text())
            self.assertIn("glibc", report.read_text())
            self.assertEqual(json.loads(table.read_text())["modes"][0]["allocations"], 1)

    def test_wrong_arguments_are_answered_with_2_and_the_reason(self):
        for arguments, reason in ((["--"], "which program?"), (["--only", "fast", "--", "true"], "no mode fast"),
                                  (["--", "/no/such/program"], "No such file"),
                                  (["--library", "/no/such.so", "--", "true"], "/no/such.so")):
            ended = compare(*arguments)
            self.assertEqual(ended.returncode, 2)
            self.assertIn(reason, ended.stderr)
        self.assertIn("Exit status", compare("--help").stdout)
        self.assertIn("CUBFC_ALLOCATOR=vmm", compare("--list").stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
