#!/usr/bin/env python3
"""README.md and docs/ name variables, commands, flags, headings, files and tests that there are.

usage: pages_test.py CUBFC
"""
import re
import subprocess
import sys
import unittest

import pages

CUBFC = sys.argv[1] if len(sys.argv) >= 2 else sys.exit(__doc__)
PATIENCE = 120  # seconds, for what comes at once where nothing else runs
# <!-- file of tests/ "what it promises" -->: the test that stands behind a sentence.
BEHIND = re.compile(r'<!-- (\S+) "([^"]+)" -->')


def help_of(*words):
    return subprocess.run([CUBFC, *words, "--help"], capture_output=True, text=True, check=True, timeout=PATIENCE).stdout


class Pages(unittest.TestCase):
    def test_variables_are_options_of_cubfc(self):
        """Elsewhere than in what is deployed also those of its build and its tests."""
        options = set(re.findall(r'"(CUBFC_[A-Z_]+)"', (pages.ROOT / "config/options.cpp").read_text()))
        self.assertIn("CUBFC_MEM_LIMIT", options)
        for path in [*pages.DEPLOY_PAGES, *pages.EXAMPLES.iterdir()]:
            self.assertEqual(set(re.findall(r"\bCUBFC_[A-Z_]+", path.read_text())) - options, set(), path.name)
        builds = [pages.ROOT / "CMakeLists.txt", *pages.ROOT.glob("scripts/*"), *pages.ROOT.glob("tests/**/CMakeLists.txt")]
        known = options | set(re.findall(r"\bCUBFC_[A-Z_]+", "".join(path.read_text() for path in builds if path.is_file())))
        meant_wrong = {"CUBFC_MEM_LIMT"}
        for path in pages.PAGES:
            self.assertEqual(set(re.findall(r"\bCUBFC_[A-Z_]*[A-Z]", path.read_text())) - known - meant_wrong, set(), path.name)

    def test_flags_are_those_of_the_command(self):
        commands = set(re.findall(r"^  ([\w-]+) ", help_of().partition("Subcommands:")[2], re.MULTILINE))
        calls = [(path, call) for path in [*pages.PAGES, *pages.EXAMPLES.iterdir()] for call in pages.calls_of_cubfc(path)]
        self.assertGreaterEqual(len(calls), 40)
        for path, [command, *words] in calls:
            with self.subTest(path.name, call=[command, *words]):
                self.assertIn(command, commands)
                flags = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", help_of(command)))
                for word in words:
                    if word.startswith("-") and word != "-":  # which is standard output
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
        for folder, index in ((pages.ROOT / "docs", pages.ROOT / "docs/README.md"), (pages.DEPLOY, pages.DEPLOY / "README.md")):
            for page in folder.glob("*.md"):
                target = str(page.relative_to(index.parent))
                self.assertTrue(page == index or f"]({target}" in index.read_text(), page)

    def test_a_page_is_read_in_five_minutes(self):
        """But for references, in which one looks something up."""
        references = {"benchmarks.md", "compatibility.md", "messages.md", "what-changes.md", "frameworks.md"}
        for page in pages.PAGES[2:]:
            with self.subTest(page.name):
                self.assertTrue(page.name in references or page.stat().st_size <= 12 << 10)

    def test_one_word_for_one_thing(self):
        """What the glossary has a word for is not called otherwise in what users read."""
        words = set(re.findall(r"\*\*([\w ]+)\*\*", (pages.ROOT / "docs/glossary.md").read_text()))
        others = {"chunk": "block", "slab": "region", "quota": "limit", "budget": "limit", "cap": "limit", "hoard": "preallocate",
                  "occupied": "in use", "trace file": "recording"}
        self.assertLessEqual(set(others.values()), words)
        inside = ("how-", "benchmarks", "gpu", "CONTRIBUTING")  # the code's own names
        for page in pages.PAGES:
            text = re.sub(r"```.*?```|`[^`\n]*`|<!--.*?-->", "", page.read_text(), flags=re.DOTALL)
            for other, word in others.items():
                with self.subTest(page.name, other=other, word=word):
                    self.assertTrue(page.name.startswith(inside) or not re.search(rf"\b{other}s?\b", text, re.IGNORECASE))

    def test_the_page_of_messages_is_what_the_sources_say(self):
        done = subprocess.run([pages.ROOT / "scripts/messages", "--check"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, f"{done.stderr}`scripts/messages` writes it anew")

    def test_tests_that_stand_behind_sentences_are_there(self):
        for page in pages.PAGES:
            for name, test in BEHIND.findall(page.read_text()):
                with self.subTest(page.name, test=test):
                    path = pages.ROOT / "tests" / name
                    self.assertTrue(path.is_file(), name)
                    # A test's name may be broken into several strings of C++.
                    self.assertIn(test, re.sub(r'"\s*\n\s*"', "", path.read_text()))

    def test_behind_each_sentence_of_what_changes_stands_a_test(self):
        items = re.findall(r"^- .*$", (pages.ROOT / "docs/what-changes.md").read_text(), re.MULTILINE)
        self.assertGreaterEqual(len(items), 20)
        self.assertEqual([item for item in items if not BEHIND.search(item) and "(not tested: " not in item], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
