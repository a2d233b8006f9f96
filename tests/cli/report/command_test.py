#!/usr/bin/env python3
"""`cubfc report` as a user calls it: names of files, exit statuses, what goes where.

usage: command_test.py CUBFC MADE_UP_TRACE
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

CUBFC, MADE_UP = map(os.path.abspath, sys.argv[1:3])


class Report(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        self.trace = self.path / "run.cubfc"
        subprocess.run([MADE_UP, "training", "3000", "1", self.trace], check=True)

    def report(self, *arguments, **more):
        return subprocess.run([CUBFC, "report", *arguments], capture_output=True, text=True, cwd=self.path,
                              timeout=60, **more)

    def names(self):
        return sorted(path.name for path in self.path.iterdir())

    def test_by_default_a_page_lies_beside_the_recording(self):
        done = self.report("run.cubfc")
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertRegex(done.stderr, r"^cubfc: run\.html \([\d.]+ KiB\); open it in a browser\n$")
        self.assertEqual(self.names(), ["run.cubfc", "run.html"])
        self.assertTrue((self.path / "run.html").read_text().startswith("<!DOCTYPE html>"))

    def test_each_format_has_its_ending(self):
        for form in ("json", "rmm", "perfetto"):
            self.assertEqual(self.report("run.cubfc", "--format", form).returncode, 0)
        self.assertEqual(self.names(), ["run.csv", "run.cubfc", "run.json", "run.perfetto-trace"])

    def test_a_recording_of_that_name_is_not_written_over(self):
        os.rename(self.trace, self.path / "run.json")
        self.assertEqual(self.report("run.json", "--format", "json").returncode, 0)
        self.assertEqual(self.names(), ["run.json", "run.report.json"])
        before = (self.path / "run.json").read_bytes()
        done = self.report("run.json", "--format", "json", "-o", "./run.json")
        self.assertEqual(done.returncode, 1)
        self.assertIn("./run.json", done.stderr)
        self.assertEqual((self.path / "run.json").read_bytes(), before)

    def test_several_recordings_make_one_report(self):
        subprocess.run([MADE_UP, "training", "2000", "2", self.path / "other.cubfc"], check=True)
        alone = [json.loads(self.report(name, "--format", "json", "-o", "-").stdout) for name in ("run.cubfc", "other.cubfc")]
        done = self.report("run.cubfc", "other.cubfc", "--format", "json", "-o", "-")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        both = json.loads(done.stdout)
        for name in ("allocations", "frees", "left_at_end_bytes"):
            self.assertEqual(both["totals"][name], sum(each["totals"][name] for each in alone))
        peaks = {device["label"]: device["peak_in_use_bytes"] for device in both["devices"]}
        self.assertEqual(peaks, {f"GPU {device['number']} of {name}": device["peak_in_use_bytes"]
                                 for name, each in zip(("run.cubfc", "other.cubfc"), alone) for device in each["devices"]})
        self.assertIn("GPU 1 of other.cubfc", self.report("run.cubfc", "other.cubfc", "--text").stdout)
        self.assertEqual(self.report("run.cubfc", "other.cubfc").returncode, 0)
        self.assertIn("run.html", self.names())
        for name in ("run.cubfc", "other.cubfc"):
            done = self.report("run.cubfc", "other.cubfc", "-o", name)
            self.assertEqual(done.returncode, 1)
            self.assertIn("is the recording itself", done.stderr)

    def test_an_rmm_log_of_it_is_a_recording_again(self):
        self.assertEqual(self.report("run.cubfc", "--format", "rmm").returncode, 0)
        told = [json.loads(self.report(name, "--format", "json", "-o", "-").stdout) for name in ("run.cubfc", "run.csv")]
        addressed = [place for place in told[0]["places"] if place["memory"] not in ("mapped", "array")]
        self.assertEqual(told[1]["totals"]["allocations"], sum(place["allocations"] for place in addressed))
        self.assertEqual(told[1]["totals"]["frees"], told[0]["totals"]["frees"])
        self.assertEqual(told[1]["totals"]["failures"], told[0]["totals"]["failures"])
        self.assertEqual(told[1]["faults"], dict.fromkeys(told[1]["faults"], 0))

    def test_a_dash_is_the_standard_output(self):
        for form in ("html", "json", "text", "rmm", "perfetto"):
            done = subprocess.run([CUBFC, "report", self.trace, "--format", form, "-o", "-"], capture_output=True,
                                  timeout=60)
            self.assertEqual(done.returncode, 0)
            self.assertGreater(len(done.stdout), 1000)
        self.assertEqual(self.names(), ["run.cubfc"])

    def test_text_goes_to_the_standard_output_without_colours(self):
        done = self.report("run.cubfc", "--text")
        self.assertEqual(done.returncode, 0)
        self.assertNotIn("\x1b", done.stdout)
        told = json.loads(self.report("run.cubfc", "--format", "json", "-o", "-").stdout)
        self.assertIn(f"({told['peak']['in_use_bytes']:,} bytes)", done.stdout)
        self.assertEqual(self.report("run.cubfc", "--format", "text").stdout, done.stdout)

    def test_a_terminal_gets_headings_unless_it_wants_none(self):
        for no_color, bold in ((None, True), ("1", False)):
            environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
            environment.update({"NO_COLOR": no_color} if no_color else {})
            parent, child = os.openpty()
            subprocess.run([CUBFC, "report", self.trace, "--text"], stdout=child, stderr=subprocess.DEVNULL,
                           env=environment, check=True, timeout=60)
            os.close(child)
            self.assertEqual(b"\x1b[1m" in os.read(parent, 1 << 16), bold)
            os.close(parent)

    def test_what_cannot_be_read_or_written_is_named(self):
        for arguments, name in ((("none.cubfc",), "none.cubfc"), (("run.cubfc", "-o", "no/such/place"), "no/such/place"),
                                (("run.cubfc", "-o", "/dev/full"), "/dev/full")):
            done = self.report(*arguments)
            self.assertEqual(done.returncode, 1)
            self.assertTrue(done.stderr.startswith("cubfc: "), done.stderr)
            self.assertIn(name, done.stderr)
        self.assertEqual(self.names(), ["run.cubfc"])

    def test_a_wrong_command_line_does_nothing(self):
        for arguments in ((), ("run.cubfc", "--format", "pdf"), ("run.cubfc", "--text", "--format", "json"),
                          ("run.cubfc", "--another")):
            self.assertEqual(self.report(*arguments).returncode, 2)
        self.assertEqual(self.names(), ["run.cubfc"])

    def test_a_device_is_written_to_and_stays(self):
        self.assertEqual(self.report("run.cubfc", "-o", "/dev/null").returncode, 0)
        self.assertTrue(pathlib.Path("/dev/null").is_char_device())

    def test_help_has_an_example(self):
        done = self.report("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("cubfc report run.cubfc -o report.html", done.stdout)

    def test_a_file_that_is_cut_off_anywhere_is_told_of_or_refused(self):
        whole = self.trace.read_bytes()
        cut = self.path / "cut.cubfc"
        for length in (*range(0, 300, 13), *range(300, len(whole), len(whole) // 40)):
            cut.write_bytes(whole[:length])
            done = self.report("cut.cubfc", "--text")
            self.assertIn(done.returncode, (0, 1))
            if done.returncode == 1:
                self.assertRegex(done.stderr, "^cubfc: .*cut.cubfc")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
