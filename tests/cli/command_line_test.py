#!/usr/bin/env python3
"""Wrong command lines, each of which is answered in a line or two that say what to type; and some that are right.

usage: command_line_test.py CUBFC DRIVER_FOLDER [unittest's words]
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

from clean_environment import clean_environment

CUBFC, DRIVER = map(os.path.abspath, sys.argv[1:3])

# A command line, and what has to be in the answer.
WRONG = (
    ("rnu", 'there is no command "rnu"; did you mean "run"?'),
    ("reprot x", 'did you mean "report"?'),
    ("train.py", 'there is no command "train.py"; see `cubfc --help`'),
    ("help runn", 'there is no command "runn"; did you mean "run"?'),
    ("--libary", 'there is no option "--libary"; did you mean "--library"?'),
    ("-x", 'there is no option "-x"; see `cubfc --help`'),
    ("run", "which program? `cubfc run [OPTIONS] -- PROGRAM ARGUMENTS`"),
    ("run --", "which program?"),
    ("run --tarce x -- app", 'there is no option "--tarce"; did you mean "--trace"?'),
    ("run --mem-limt=3GiB -- app", 'there is no option "--mem-limt"; did you mean "--mem-limit"?'),
    ("run --memlimit 3GiB -- app", 'did you mean "--mem-limit"?'),
    ("run -qw app", 'there is no option "-w"'),
    ("run --trace -- app", "--trace needs a value: --trace=FILE"),
    ("run --trace", "--trace needs a value: --trace=FILE"),
    ("run --mem-limit", "--mem-limit needs a value: --mem-limit=SIZE"),
    ("run --mem-limit -- app", "--mem-limit needs a value"),
    ("run --unified-memory true", 'is "true" the value of --unified-memory, or the program?'),
    ("run --unified-memory false app", "--unified-memory=false -- PROGRAM, or --unified-memory -- false"),
    ("run --wait true --quiet", 'is "true" the value of --wait'),
    ("run --observe=maybe -- app", "--observe = maybe cannot be used"),
    ("run --mem-limit 20 -- app", "is 20 bytes; with a unit: 20GiB, or 20MiB"),
    ("run --mem-limit 0=20,1=25% -- app", "is 20 bytes"),
    ("run --group g --group-limit 8 -- app", "is 8 bytes"),
    ("run --reserve 512 -- app", "is 512 bytes"),
    ("run --mem-fraction 2 -- app", '--mem-fraction "2" cannot be used; accepted: a share above 0'),
    ("run --share 0 -- app", '--share "0" cannot be used'),
    ("run --library nowhere.so -- app", 'there is no file "nowhere.so"'),
    ("compare --timeout 0 -- app", '"0" is no time from 0.001 to 86400 seconds'),
    ("compare --only nothing -- app", "there is no mode nothing; --list shows them"),
    ("trim abc", '"abc" is no process id; `cubfc top --once` lists'),
    ("trim -- -5", '"-5" is no process id'),
    ("trim 1 2", '"2" is one word too many'),
    ("trim", "trim:"),
    ("last abc", '"abc" is no process id'),
    ("last 99999999999999", '"99999999999999" is no process id'),
    ("last --josn", 'did you mean "--json"?'),
    ("top --interval abc", '"abc" is no time from 0.1 to 86400 seconds'),
    ("top --interval 1e99", "is no time from 0.1 to 86400 seconds"),
    ("top --pid x", '"x" is no process id'),
    ("check --gpu 1000", '"1000" is no whole number from 0 to 255'),
    ("check --timeout 1.5", '"1.5" is no whole number from 1 to 86400'),
    ("check --fill", "--fill needs a value: --fill=SHARE"),
    ("report", "which FILE?"),
    ("report -x", 'there is no option "-x"'),
    ("report a --ouput b", 'did you mean "--output"?'),
    ("report a --format picture", "picture not in"),
    ("report a --text --format json", "excludes"),
    ("replay", "which FILE?"),
    ("metrics --lisen 1", 'did you mean "--listen"?'),
    ("metrics --listen nowhere", "there is no port"),
    ("limit", "which group?"),
    ("completion", "which SHELL?"),
)


class CommandLines(unittest.TestCase):
    def run_cubfc(self, *words, **more):
        environment = clean_environment(LD_LIBRARY_PATH=DRIVER) | more
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([CUBFC, *words], env=environment, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
            self.made = os.listdir(folder)
        return done

    def test_what_is_wrong_is_said_in_a_line_or_two_with_what_to_type(self):
        for line, answer in WRONG:
            with self.subTest(line=line):
                done = self.run_cubfc(*line.split())
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertIn(answer, done.stderr)
                self.assertTrue(done.stderr.startswith("cubfc: "))
                self.assertLessEqual(len(done.stderr.splitlines()), 2)
                self.assertLess(len(done.stderr), 500)
                self.assertEqual(self.made, [])

    def test_a_value_behind_a_switch_is_never_the_program(self):
        for words in (("--unified-memory", "true", "--"), ("--wait", "no", "--"), ("--unified-memory", "false", "--"), ("-q",),
                      ("-q", "--"), ("--unified-memory=false",), ("--trace=--", "--")):
            with self.subTest(words=words):
                done = self.run_cubfc("run", *words, "sh", "-c", "echo $0 $1; exit 7", "true", "--", CUBFC_LOG_LEVEL="error")
                self.assertEqual((done.returncode, done.stdout), (7, "true --\n"), done.stderr)

    def test_short_switches_take_none(self):
        self.assertEqual(self.run_cubfc("run", "-q", "false").returncode, 1)
        self.assertEqual(self.run_cubfc("run", "-q", "true").returncode, 0)

    def test_without_words_and_with_help_the_commands_are_listed(self):
        alone = self.run_cubfc()
        self.assertEqual((alone.returncode, alone.stdout), (2, ""))
        for words in (("help",), ("--help",), ("-h",)):
            done = self.run_cubfc(*words)
            self.assertEqual((done.returncode, done.stdout), (0, alone.stderr))
        self.assertEqual(self.run_cubfc("help", "run").stdout, self.run_cubfc("run", "--help").stdout)
        self.assertEqual(self.run_cubfc("-V").stdout, self.run_cubfc("--version").stdout)

    def test_help_fits_the_terminal(self):
        for command in ("run", "top", "trim", "check", "report", "metrics", "limit", "last", "compare", "replay"):
            for columns, most in (("20", 60), ("60", 60), ("80", 80), ("99999", 100), ("many", 80)):
                with self.subTest(command=command, columns=columns):
                    done = self.run_cubfc(command, "--help", COLUMNS=columns)
                    self.assertEqual(done.returncode, 0)
                    self.assertEqual([line for line in done.stdout.splitlines()
                                      if len(line) > most and not re.match("  (cubfc|CUBFC|torchrun|LD_)", line)], [])

    def test_every_option_has_a_heading_and_is_in_the_help_once(self):
        text = self.run_cubfc("run", "--help").stdout
        first = text[text.index("\nOptions:"):text.index("\nHow memory is taken")]
        self.assertNotIn("CUBFC_", first)
        for word in ("--mem-limit SIZE", "--trace FILE", "--mem-fraction SHARE", "--trim-after TIME", "--allocator VALUE"):
            self.assertEqual(text.count(f"\n  {word} "), 1, word)
        for heading in ("Limits, and who shares a GPU:", "How memory is taken and given back:", "What is told and recorded:"):
            self.assertEqual(text.count(f"\n{heading}\n"), 1)
        self.assertEqual(text.count("powers of 1024"), 1)

    def test_one_process_shares_with_none(self):
        done = self.run_cubfc("run", "--share", "auto", "--", "true", LOCAL_WORLD_SIZE="1")
        self.assertEqual(done.returncode, 0)
        self.assertIn("mem_fraction 1: 1 process (LOCAL_WORLD_SIZE), which shares with none", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
