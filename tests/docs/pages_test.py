#!/usr/bin/env python3
"""README.md and docs/ name variables, commands, flags, headings and files that there are.

usage: pages_test.py CUBFC
"""
import re
import subprocess
import sys
import unittest

import pages

CUBFC = sys.argv[1] if len(sys.argv) >= 2 else sys.exit(__doc__)
PATIENCE = 120  # seconds, for what comes at once where nothing else runs
WITHOUT_COMMAND = {"--version", "--library", "--help"}


def help_of(*words):
    return subprocess.run([CUBFC, *words, "--help"], capture_output=True, text=True, check=True, timeout=PATIENCE).stdout


class Pages(unittest.TestCase):
    def test_variables_are_options_of_cubfc(self):
        sources = [pages.ROOT / "config/options.cpp", *(pages.ROOT / "scripts").iterdir(), *pages.ROOT.glob("tests/*/*.py"),
                   *pages.ROOT.glob("tests/**/CMakeLists.txt"), pages.ROOT / "CMakeLists.txt", *pages.ROOT.glob("scripts/*.in")]
        known = set(re.findall(r"\bCUBFC_[A-Z_]+", "".join(path.read_text() for path in sources if path.is_file())))
        self.assertIn("CUBFC_MEM_LIMIT", known)
        meant_wrong = {"CUBFC_MEM_LIMT"}
        for path in [*pages.PAGES, *pages.EXAMPLES.iterdir()]:
            self.assertEqual(set(re.findall(r"\bCUBFC_[A-Z_]*[A-Z]", path.read_text())) - known - meant_wrong, set(), path)

    def test_flags_are_those_of_the_command(self):
        commands = set(re.findall(r"^  ([\w-]+) ", help_of().partition("Subcommands:")[2], re.MULTILINE))
        calls = [(path, call) for path in [*pages.PAGES, *pages.EXAMPLES.iterdir()] for call in pages.calls_of_cubfc(path)]
        self.assertGreaterEqual(len(calls), 40)
        for path, [command, *words] in calls:
            with self.subTest(path.name, call=[command, *words]):
                self.assertIn(command, commands)
                flags = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", help_of(command)))
                for word in words:
                    if re.match(r"--?[a-z]", word):
                        self.assertIn(word.partition("=")[0], flags)

    def test_links_lead_somewhere(self):
        for page in pages.PAGES:
            for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
                if re.match(r"https?://", target):
                    continue
                with self.subTest(page.name, target=target):
                    path, _, anchor = target.partition("#")
                    found = (page.parent / path).resolve() if path else page
                    self.assertTrue(found.exists())
                    self.assertTrue(not anchor or anchor in pages.headings_of(found))

    def test_each_page_is_linked_to(self):
        for folder, index in ((pages.ROOT / "docs", pages.ROOT / "README.md"), (pages.DEPLOY, pages.DEPLOY / "README.md")):
            for page in folder.glob("*.md"):
                target = str(page.relative_to(index.parent))
                self.assertTrue(page == index or f"]({target}" in index.read_text(), page)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
