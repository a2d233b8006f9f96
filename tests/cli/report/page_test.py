#!/usr/bin/env python3
"""The page of `cubfc report` in a browser, used by pointer, wheel and keys: what it says is what --format json says.

usage: page_test.py CUBFC MADE_UP_TRACE

Skipped (exit status 77) where no Chromium is found; CUBFC_TEST_BROWSER names one.
"""
import json
import os
import pathlib
import pickle
import re
import resource
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from devtools import Browser, find_browser  # noqa: E402

CUBFC, MADE_UP = map(os.path.abspath, sys.argv[1:3])
FOLDER = tempfile.TemporaryDirectory(prefix="cubfc-page-test-")
BROWSER = None


def made(kind, events, seed=1):
    """The path of a page, and what --format json says of the same recording."""
    path = pathlib.Path(FOLDER.name, f"{kind}-{events}-{seed}.cubfc")
    page = path.with_suffix(".html")
    if not page.exists():
        subprocess.run([MADE_UP, kind, str(events), str(seed), path], check=True, timeout=120)
        subprocess.run([CUBFC, "report", path], check=True, timeout=120)
    told = subprocess.run([CUBFC, "report", path, "--format", "json", "-o", "-"], check=True, capture_output=True,
                          timeout=120)
    return page, json.loads(told.stdout)


MIB = 1 << 20
FEW_BLOCKS = ((0, 4), (4, 2), (6, 1), (7, 1))  # where each begins and how large it is, in MiB
FEW_BASE = 0x7f0000000000


def made_of_few_blocks():
    """Four blocks side by side; the second is freed before the last is there. Events are 0 to 4."""
    path = pathlib.Path(FOLDER.name, "few.csv")
    lines = [("allocate", n) for n in range(3)] + [("free", 1), ("allocate", 3)]
    path.write_text("Thread,Time,Action,Pointer,Size,Stream\n" + "".join(
        f"1,00:00:00.{n:06},{action},0x{FEW_BASE + FEW_BLOCKS[block][0] * MIB:x},{FEW_BLOCKS[block][1] * MIB},0x0\n"
        for n, (action, block) in enumerate(lines)))
    subprocess.run([CUBFC, "report", path], check=True, timeout=60)
    return path.with_suffix(".html")


def made_with_stacks():
    """A snapshot of 1 and 2 MiB that two functions of Python have asked for, and 4 MiB of the backward pass; the 4 MiB are
    freed. Events are 0, the segment of before, to 4."""
    def frames(*names):
        return [{"name": name, "filename": "/home/me/train.py", "line": 10 * n + 10} for n, name in enumerate(names)]
    native = [{"name": "torch::autograd::Engine::evaluate", "filename": "libtorch_cpu.so", "line": 4711}]
    asked = ((1, frames("forward", "step", "train")), (2, frames("clone", "step", "train")), (4, native))
    entries = [{"action": "alloc", "addr": FEW_BASE + n * 16 * MIB, "size": size * MIB, "stream": 0, "frames": stack, "time_us": n + 1}
               for n, (size, stack) in enumerate(asked)]
    entries += [{"action": action, "addr": FEW_BASE + 32 * MIB, "size": 4 * MIB, "stream": 0, "time_us": 9}
                for action in ("free_requested", "free_completed")]
    segment = {"device": 0, "address": FEW_BASE, "total_size": 64 * MIB, "stream": 0, "blocks": []}
    path = pathlib.Path(FOLDER.name, "stacks.pickle")
    path.write_bytes(pickle.dumps({"segments": [segment], "device_traces": [entries]}))
    subprocess.run([CUBFC, "report", path], check=True, timeout=60)
    return path.with_suffix(".html")


def made_of_a_history(times=False):
    """A snapshot of a history that began late: two segments of 32 MiB that touch, with 8 MiB from before in the first;
    then ten lines ask for 1 MiB each in the second, by Python through the interpreter's own functions. The first of
    these is freed. Events are 0, what was before, to 11."""
    def frames(line):
        return [{"name": "torch::unwind::unwind", "filename": "??", "line": 0},
                {"name": f"f{line}", "filename": "/x/lib/python3.11/site-packages/einops/layers.py", "line": line},
                {"name": "_PyEval_EvalFrameDefault", "filename": "ceval.c", "line": 1},
                {"name": "main", "filename": "/home/me/train.py", "line": 7}]
    second = FEW_BASE + 32 * MIB
    entries = [{"action": "alloc", "addr": second + n * 2 * MIB, "size": MIB - 100, "stream": 0, "frames": frames(n + 1)}
               for n in range(10)] + [{"action": "free_completed", "addr": second, "size": MIB - 100, "stream": 0}]
    if times:
        for n, entry in enumerate(entries):
            entry["time_us"] = 1000 + (0 if n == 0 else 10**6 + n)
    blocks = [{"address": FEW_BASE, "size": 8 * MIB, "requested_size": 8 * MIB, "state": "active_allocated"},
              {"address": FEW_BASE + 8 * MIB, "size": 24 * MIB, "requested_size": 0, "state": "inactive"}]
    segments = [{"device": 0, "address": FEW_BASE, "total_size": 32 * MIB, "stream": 0, "blocks": blocks},
                {"device": 0, "address": second, "total_size": 32 * MIB, "stream": 0, "blocks": []}]
    path = pathlib.Path(FOLDER.name, f"history-{times}.pickle")
    path.write_bytes(pickle.dumps({"segments": segments, "device_traces": [entries]}))
    subprocess.run([CUBFC, "report", path], check=True, timeout=60)
    return path.with_suffix(".html")


def number(text):
    return int(text.replace(",", ""))


def bytes_text(count):
    value, unit = float(count), 0
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024:
        value, unit = value / 1024, unit + 1
    return f"{count} B" if unit == 0 else f"{value:.{2 if value < 100 else 1}f} {units[unit]}"


def status():
    """What the page says of its moment, as numbers."""
    BROWSER.drawn()
    text = BROWSER.text("#status")
    found = re.search(r"event ([\d,]+)\)?: in use .*?\(([\d,]+) bytes\) in ([\d,]+) blocks?(?: · waiting .*?\(([\d,]+) bytes\))?"
                      r" · taken .*?\(([\d,]+) bytes\) · free .*?\(([\d,]+) bytes\) in ([\d,]+) pieces?, the largest"
                      r" .*?\(([\d,]+) bytes\)", text)
    assert found, text
    names = ("event", "in_use_bytes", "blocks", "waiting_bytes", "taken_bytes", "free_bytes", "free_pieces",
             "largest_free_bytes")
    return dict(zip(names, (number(one or "0") for one in found.groups())))


def shown():
    BROWSER.drawn()
    found = re.search(r"events ([\d,]+) to ([\d,]+)", BROWSER.text("#shown"))
    return tuple(map(number, found.groups()))


def block_told():
    """The facts of the block under the pointer, or that is chosen; empty where there is none."""
    BROWSER.drawn()
    title = BROWSER.text("#block-title")
    if not title.startswith("Block "):
        return {}
    facts = BROWSER.evaluate("Object.fromEntries([...document.querySelectorAll('#block dt')].map((t) => "
                             "[t.innerText, t.nextElementSibling.innerText]))")
    return {"block": number(title[6:]), **facts}


def go_to(event):
    """By typing its number."""
    BROWSER.click_on("#event")
    BROWSER.evaluate("document.querySelector('#event').select()")
    for digit in str(event):
        BROWSER.key(digit)


def cells(selector):
    return BROWSER.evaluate(f"[...document.querySelectorAll({json.dumps(selector + ' tbody tr')})].map((r) => "
                            "[...r.cells].map((c) => c.innerText))")


class Page(unittest.TestCase):
    def open(self, *what):
        page, told = made(*what)
        self.open_page(page)
        return told

    def open_page(self, page):
        BROWSER.events.clear()
        BROWSER.open(page.as_uri())
        BROWSER.wait("document.querySelector('#status') && document.querySelector('#status').innerText !== ''")
        BROWSER.settle()

    def tearDown(self):
        for event in BROWSER.events:
            method = event.get("method")
            self.assertNotEqual(method, "Runtime.exceptionThrown", event)
            self.assertNotEqual(method, "Page.javascriptDialogOpening", event)
            if method == "Network.requestWillBeSent":
                self.assertTrue(event["params"]["request"]["url"].startswith("file://"), event)

    def test_it_opens_at_the_peak_and_says_what_it_was(self):
        told = self.open("training", 3000)
        self.assertEqual(BROWSER.evaluate("document.title"), "GPU memory of train.py --layers 24")
        at = status()
        peak = told["peak"]
        self.assertEqual((at["event"], at["in_use_bytes"], at["blocks"], at["waiting_bytes"], at["taken_bytes"]),
                         (peak["event"], peak["in_use_bytes"], peak["in_use_blocks"], peak["waiting_bytes"],
                          peak["taken_bytes"]))
        facts = BROWSER.text("#facts")
        for count in (peak["in_use_bytes"], told["peak_taken_bytes"], told["totals"]["left_at_end_bytes"],
                      told["totals"]["allocations"]):
            self.assertIn(f"{count:,}", facts)

    def test_at_each_moment_it_says_what_is_in_use_taken_and_free(self):
        told = self.open("training", 3000)
        for sample in told["samples"][::23]:
            go_to(sample["event"])
            at = status()
            for name in ("event", "in_use_bytes", "taken_bytes", "free_bytes", "free_pieces", "largest_free_bytes"):
                self.assertEqual(at[name], sample[name], (name, sample))

    def test_the_slider_moves_the_moment_by_pointer_and_keys(self):
        told = self.open("training", 3000)
        last = told["recording"]["events"] - 1
        left, top, width, height = BROWSER.box("#moment")
        BROWSER.drag(left + width / 2, top + height / 2, left + width * 0.25, top + height / 2)
        self.assertAlmostEqual(status()["event"], last * 0.25, delta=last * 0.03)
        BROWSER.key("ArrowRight")
        after = status()["event"]
        BROWSER.key("ArrowRight")
        self.assertEqual(status()["event"], after + 1)
        BROWSER.key("End")
        at = status()
        self.assertEqual((at["event"], at["in_use_bytes"], at["blocks"]),
                         (last, told["end"]["in_use_bytes"], told["end"]["in_use_blocks"]))

    def test_the_wheel_zooms_around_the_pointer_and_keys_and_drags_move(self):
        told = self.open("training", 20000)
        BROWSER.choose_option("#axis", "events")
        whole = (0, told["recording"]["events"] - 1)
        self.assertEqual(shown(), whole)
        left, top, width, height = BROWSER.box("#timeline")
        x, y = left + 100 + (width - 110) * 0.25, top + height / 2
        for _ in range(6):
            BROWSER.pointer("mouseWheel", x, y, deltaX=0, deltaY=-200)
        first, last = shown()
        self.assertLess(last - first, whole[1] / 10)
        self.assertAlmostEqual(first + (last - first) * 0.25, whole[1] * 0.25, delta=whole[1] * 0.01)
        BROWSER.drag(left + 400, y, left + 500, y)
        moved = shown()
        self.assertAlmostEqual(first - moved[0], (last - first) * 100 / (width - 110), delta=3)
        self.assertAlmostEqual(moved[1] - moved[0], last - first, delta=1)
        BROWSER.drag(left + 300, y, left + 400, y, modifiers=8)
        self.assertAlmostEqual(shown()[1] - shown()[0], (last - first) * 100 / (width - 110), delta=3)
        BROWSER.key("0")
        self.assertEqual(shown(), whole)
        BROWSER.key("+")
        self.assertAlmostEqual(shown()[1] - shown()[0], whole[1] * 0.7, delta=2)
        BROWSER.click_on("#whole")
        self.assertEqual(shown(), whole)

    def test_a_block_is_where_its_size_and_its_neighbours_put_it(self):
        self.open_page(made_of_few_blocks())
        BROWSER.choose_option("#axis", "events")
        left, top, width, height = BROWSER.box("#timeline")
        across, down = width - 110, height - 44  # without the margins

        def at(event, mib):
            BROWSER.pointer("mouseMoved", left + 100 + across * (event + 0.5) / 5,
                            top + 22 + down * (1 - mib / (7 * 1.04)))
            return block_told().get("block")

        for event, levels in ((0, ((0.3, 0), (3.7, 0), (4.3, None))), (2, ((3.7, 0), (4.3, 1), (5.7, 1), (6.5, 2))),
                              (3, ((3.7, 0), (4.5, 2), (5.3, None))), (4, ((2, 0), (4.5, 2), (5.5, 3), (6.5, None)))):
            for mib, block in levels:
                self.assertEqual(at(event, mib), block, (event, mib))

    def test_a_block_is_on_the_map_where_its_address_puts_it(self):
        self.open_page(made_of_few_blocks())
        go_to(4)
        left, top, width, _ = BROWSER.box("#map")
        row_pixels = int(width) - 110
        for mib, words in ((0.2, "block 0:"), (3.8, "block 0:"), (4.2, "no block: 2.00 MiB"), (5.8, "no block: 2.00 MiB"),
                           (6.2, "block 2:"), (6.8, "block 2:"), (7.2, "block 3:"), (7.8, "block 3:")):
            row, pixel = divmod(mib / 8 * row_pixels * 14, row_pixels)
            BROWSER.pointer("mouseMoved", left + 100 + pixel, top + 5 + 21 * row + 8)
            BROWSER.drawn()
            self.assertTrue(BROWSER.text("#tip").startswith(words), (mib, words, BROWSER.text("#tip")))

    def test_the_pointer_finds_the_blocks_of_the_peak(self):
        told = self.open("training", 3000)
        for _ in range(20):
            BROWSER.key("+")
        first, last = shown()
        left, top, width, height = BROWSER.box("#timeline")
        peak = told["peak"]["event"]
        x = left + 100 + (width - 110) * (peak + 0.5 - first) / (last + 1 - first)
        found = {}
        for y in range(int(top) + 26, int(top + height) - 24, 3):
            BROWSER.pointer("mouseMoved", x, y)
            facts = block_told()
            if facts:
                found[facts["block"]] = facts
        biggest = {block["block"]: block for block in told["peak"]["biggest_blocks"]}
        seen = [found[n] for n in biggest if n in found]
        self.assertGreaterEqual(len(seen), 10)
        for facts in seen:
            block = biggest[facts["block"]]
            self.assertIn(f"({block['bytes'] + block['padding']:,} bytes)", facts["size"])
            self.assertEqual(facts["caller"], block["caller"])
            self.assertEqual(facts["thread"], block["thread"])
            self.assertEqual(int(facts["address"], 16), block["address"])
            self.assertTrue(facts["allocated"].endswith(f"event {block['allocated_event']:,}"))
            if block["freed_event"] is None:
                self.assertEqual(facts["freed"], "never")
            else:
                self.assertTrue(facts["freed"].endswith(f"event {block['freed_event']:,}"))

    def test_the_map_has_the_same_blocks_and_tells_what_is_free(self):
        told = self.open("training", 3000)
        left, top, width, height = BROWSER.box("#map")
        biggest = {block["block"]: block for block in told["peak"]["biggest_blocks"]}
        seen, free = set(), 0
        for y in range(int(top) + 12, int(top + height), 21):
            for x in range(int(left) + 110, int(left + width) - 12, 45):
                BROWSER.pointer("mouseMoved", x, y)
                tip = BROWSER.evaluate("document.querySelector('#tip').hidden ? '' : "
                                       "document.querySelector('#tip').innerText")
                free += tip.startswith("free: ")
                match = re.match(r"block ([\d,]+): .*?\(([\d,]+) bytes\)", tip)
                if match and number(match[1]) in biggest:
                    block = biggest[number(match[1])]
                    self.assertEqual(number(match[2]), block["bytes"] + block["padding"])
                    seen.add(block["block"])
        self.assertGreaterEqual(len(seen), 10)
        self.assertGreater(free, 0)

    def test_out_of_memory_moments_are_gone_to_and_their_report_is_shown(self):
        told = self.open("training", 20000)
        failures = told["out_of_memory"]
        self.assertGreater(len(failures), 2)
        BROWSER.click_on("#failures li:nth-child(2) button")
        self.assertEqual(status()["event"], failures[1]["event"])
        self.assertIn(f"({failures[1]['in_use_bytes']:,} bytes)", BROWSER.text("#failures"))
        self.assertIn(failures[1]["text"].strip(), BROWSER.text("#failure-report"))
        self.assertIn(f"({failures[1]['asked_bytes']:,} bytes)", BROWSER.text("#failures"))
        self.assertIn(f"({failures[1]['largest_free_bytes']:,} bytes)", BROWSER.text("#failures"))
        BROWSER.key("o")
        self.assertEqual(status()["event"], failures[2]["event"])

    def test_the_table_of_callers_is_that_of_the_peak(self):
        told = self.open("training", 3000)
        rows = cells("#holders")
        peak = sorted(told["peak"]["by_caller"], key=lambda one: -one["bytes"])
        for row, one in zip(rows, peak):
            self.assertEqual((row[2], row[3], number(row[5])),
                             (one["caller"], bytes_text(one["bytes"]), one["blocks"]))
            self.assertEqual((row[6], number(row[8])), (bytes_text(one["bytes"]), one["blocks"]))
        BROWSER.click_on("#moment")
        BROWSER.key("End")
        BROWSER.settle()
        end = {one["caller"]: one for one in told["end"]["by_caller"]}
        for row in cells("#holders"):
            self.assertEqual(row[3], bytes_text(end.get(row[2], {"bytes": 0})["bytes"]))
        biggest = told["end"]["biggest_blocks"]
        self.assertEqual([number(row[2]) for row in cells("#biggest")],
                         [block["bytes"] + block["padding"] for block in biggest])

    def test_a_device_alone_has_its_own_peak(self):
        told = self.open("training", 3000)
        for n, device in enumerate(told["devices"]):
            BROWSER.choose_option("#scope", str(n + 1))
            BROWSER.click_on("#to-peak")
            at = status()
            self.assertEqual((at["event"], at["in_use_bytes"]), (device["peak_event"], device["peak_in_use_bytes"]))

    def test_across_time_the_same_is_told(self):
        told = self.open("training", 3000)
        BROWSER.choose_option("#axis", "time")
        self.assertEqual(shown(), (0, told["recording"]["events"] - 1))
        BROWSER.click_on("#to-peak")
        self.assertEqual(status()["in_use_bytes"], told["peak"]["in_use_bytes"])

    def test_everything_is_reached_without_a_pointer(self):
        self.open("training", 20000)
        reached = set()
        for _ in range(80):
            BROWSER.key("Tab")
            reached.add(BROWSER.evaluate("document.activeElement.id"))
        controls = BROWSER.evaluate("[...document.querySelectorAll('header button, select, .controls button, input')]"
                                    ".filter((one) => one.checkVisibility()).map((one) => one.id)")
        self.assertLessEqual(set(controls) | {"timeline"}, reached)
        BROWSER.evaluate("document.querySelector('#timeline').focus()")
        BROWSER.key("ArrowUp")
        lowest = block_told()
        BROWSER.key("ArrowUp")
        self.assertNotEqual(block_told(), lowest)
        BROWSER.key("ArrowDown")
        self.assertEqual(block_told(), lowest)
        before = status()["event"]
        BROWSER.key("ArrowLeft")
        self.assertEqual(status()["event"], before - 1)
        BROWSER.key("Escape")
        self.assertEqual(block_told(), {})
        BROWSER.key("?")
        self.assertIn("go to the peak", BROWSER.text("#help"))

    def test_it_is_dark_where_that_is_preferred_or_chosen(self):
        self.open("training", 3000)
        background = "getComputedStyle(document.body).backgroundColor"
        for system, dark, light in (("light", "rgb(20, 24, 29)", "rgb(255, 255, 255)"),
                                    ("dark", "rgb(20, 24, 29)", "rgb(255, 255, 255)")):
            BROWSER.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": system}])
            BROWSER.choose_option("#theme", "auto")
            self.assertEqual(BROWSER.evaluate(background), dark if system == "dark" else light)
            BROWSER.key("t")
            self.assertEqual(BROWSER.evaluate(background), light if system == "dark" else dark)
        BROWSER.call("Emulation.setEmulatedMedia", features=[])

    def test_the_flame_graph_shows_who_asked_and_goes_into_what_is_clicked(self):
        self.open_page(made_with_stacks())

        def settled(wanted):
            BROWSER.wait(f"document.querySelector('#flame .status').innerText.startsWith({wanted!r})")
        settled("all that have a stack \u00b7 7.00 MiB (7,340,032 bytes) in 3 blocks")
        left, top, width, _ = BROWSER.box("#flame .drawing")
        right = left + width - 20  # the backward pass has the larger part, and stands first
        for x, row, words in ((left + 20, 1, "PyTorch's backward pass (autograd) \u00b7 4.00 MiB"),
                              (right, 1, "train (/home/me/train.py:30) \u00b7 3.00 MiB"),
                              (right, 3, "forward (/home/me/train.py:10) \u00b7 1.00 MiB")):
            BROWSER.pointer("mouseMoved", x, top + 18 * row + 9)
            self.assertTrue(BROWSER.text("#tip").startswith(words), BROWSER.text("#tip"))
        BROWSER.click(right, top + 27)
        settled("train (/home/me/train.py:30) \u00b7 3.00 MiB (3,145,728 bytes) in 2 blocks \u00b7 42.9 %")
        BROWSER.click(right, top + 27)  # a second time: back
        settled("all that have a stack")
        BROWSER.evaluate("document.querySelector('#flame .drawing').focus()")
        BROWSER.key("ArrowDown")
        settled("PyTorch's backward pass (autograd)")
        BROWSER.key("ArrowUp")
        settled("all that have a stack")
        BROWSER.choose_option("#flame select", "end")
        settled("all that have a stack \u00b7 3.00 MiB")
        BROWSER.choose_option("#flame select", "shown")
        go_to(1)
        settled("all that have a stack \u00b7 1.00 MiB")

    def test_blocks_are_told_apart_by_line_first(self):
        self.open_page(made_with_stacks())
        BROWSER.wait("document.querySelectorAll('#legend li').length === 3")
        legend = BROWSER.text("#legend")
        for words in ("PyTorch's backward pass (autograd)", "train.py:10 (forward)", "train.py:10 (clone)"):
            self.assertIn(words, legend)
            self.assertIn(words, BROWSER.text("#holders"))

    def test_a_history_begins_with_what_was_there_before(self):
        self.open_page(made_of_a_history())
        self.assertEqual((status()["event"], status()["in_use_bytes"], status()["blocks"]), (10, 18 * MIB, 11))
        facts = BROWSER.text("#facts")
        BROWSER.click_on("#to-end")
        self.assertEqual((status()["event"], status()["in_use_bytes"]), (11, 17 * MIB))
        for words in ("Free of it, at the peak\n46.00 MiB in 11 pieces, the largest 24.00 MiB",
                      "and at the end\n47.00 MiB in 11 pieces, the largest 24.00 MiB", "(from before the recording: no stack), 44.4 %; then layers.py:2 (f2) < train.py:7 (main), 5.6 %",
                      "of 8.00 MiB of it the file does not tell the stack", "asked for, without padding\n18.00 MiB (18,873,368 bytes)",
                      "Before the recording\n8.00 MiB (8,388,608 bytes) in 1 block", "Allocations\n10, 0 failed"):
            self.assertIn(words, facts)
        self.assertIn("11 events, without times", BROWSER.text("#source"))
        go_to(0)
        at = status()
        self.assertIn("Before the recording began (event 0): in use", BROWSER.text("#status"))
        # No block reaches from one segment into the other.
        self.assertEqual((at["in_use_bytes"], at["taken_bytes"], at["free_pieces"], at["largest_free_bytes"]),
                         (8 * MIB, 64 * MIB, 2, 32 * MIB))
        BROWSER.evaluate("document.querySelector('#timeline').focus()")
        BROWSER.key("ArrowUp")
        told = block_told()
        self.assertEqual((told["allocated"], told["line"]), ("before the recording began", "(from before the recording: no stack)"))
        self.assertNotRegex(BROWSER.text("#page"), r"\d (ns|\u00b5s|ms|s)\b")  # it has no times
        self.assertFalse(BROWSER.evaluate("document.querySelector('#axis').checkVisibility()"))
        self.assertFalse(BROWSER.evaluate("document.querySelector('#lifetimes').checkVisibility()"))

    def test_what_is_mostly_a_pause_is_shown_over_the_events(self):
        self.open_page(made_of_a_history(times=True))
        self.assertEqual(BROWSER.evaluate("document.querySelector('#axis').value"), "events")
        self.assertIn("11 events in 1.00 s", BROWSER.text("#source"))

    def test_functions_of_python_come_first_and_all_can_be_shown(self):
        self.open_page(made_of_a_history())

        def settled(rows):
            BROWSER.wait(f"document.querySelector('#flame canvas').clientHeight === {18 * rows}")
        settled(3)
        self.assertIn("beside it, without a stack: 8.00 MiB (8,388,608 bytes)", BROWSER.text("#flame .status"))
        BROWSER.evaluate("document.querySelector('#timeline').focus()")
        BROWSER.key("ArrowDown")  # the highest
        BROWSER.drawn()
        self.assertEqual(BROWSER.text("#block pre").splitlines(),
                         ["f10 (/x/lib/python3.11/site-packages/einops/layers.py:10)", "main (/home/me/train.py:7)"])
        BROWSER.choose_option("#functions", "all")
        settled(5)
        BROWSER.drawn()
        self.assertEqual(len(BROWSER.text("#block pre").splitlines()), 4)

    def test_groups_without_a_colour_of_their_own_are_one_in_the_legend(self):
        self.open_page(made_of_a_history())
        BROWSER.wait("document.querySelectorAll('#legend li').length === 8")
        rows = BROWSER.text("#legend").splitlines()
        self.assertEqual(rows[:2], ["(from before the recording: no stack)", "8.00 MiB"])
        self.assertEqual(rows[2:4], ["layers.py:1 (f1) < train.py:7 (main)", "1.00 MiB"])
        self.assertEqual(rows[-2:], ["4 others", "4.00 MiB"])

    def test_who_holds_it_is_sorted_by_the_column_that_is_chosen(self):
        self.open_page(made_of_a_history())
        go_to(2)
        BROWSER.settle()

        def first_line():
            BROWSER.settle()
            return cells("#holders")[0][2]

        def last_line():
            return cells("#holders")[-1][2]
        first = "einops/layers.py:1 (f1), from /home/me/train.py:7 (main)"
        self.assertEqual(first_line(), "(from before the recording: no stack)")
        self.assertEqual(last_line(), "einops/layers.py:10 (f10), from /home/me/train.py:7 (main)")
        heads = BROWSER.evaluate("[...document.querySelectorAll('#holders th button')].map((one) => one.innerText)")
        self.assertEqual(heads, ["now \u25be", "at the peak", "at the end", "allocated in all"])
        BROWSER.evaluate("document.querySelectorAll('#holders th button')[2].click()")
        self.assertEqual((first_line(), last_line()), ("(from before the recording: no stack)", first))
        BROWSER.evaluate("document.querySelectorAll('#holders th button')[3].click()")
        self.assertEqual((first_line(), last_line()), (first, "(from before the recording: no stack)"))
        self.assertEqual(cells("#holders")[-1][9:], ["8.00 MiB", "47.1 %", "1", "0 B", "0"])

    def test_a_number_past_the_last_event_is_the_last_one(self):
        self.open_page(made_of_a_history())
        go_to(99999)
        BROWSER.key("Tab")
        self.assertEqual(status()["event"], 11)
        self.assertEqual(BROWSER.evaluate("document.querySelector('#event').value"), "11")

    def test_without_stacks_there_is_no_flame_graph(self):
        self.open_page(made_of_few_blocks())
        self.assertTrue(BROWSER.evaluate("document.querySelector('#flame').hidden"))

    def test_names_and_texts_stay_text(self):
        told = self.open("hostile", 3000)
        self.assertNotEqual(BROWSER.evaluate("document.title"), "harmed")
        BROWSER.click_on("#to-failure")
        BROWSER.drawn()
        self.assertEqual(BROWSER.evaluate("document.querySelectorAll('img, iframe, object, link').length"), 0)
        self.assertEqual(BROWSER.evaluate("document.querySelectorAll('script').length"), 1)
        self.assertIn("<script>document.title='harmed'</script>", BROWSER.text("#holders"))
        self.assertIn("</script>", BROWSER.text("#failure-report"))
        self.assertEqual(status()["event"], told["out_of_memory"][0]["event"])

    def test_a_recording_that_makes_no_sense_is_shown_with_its_faults(self):
        told = self.open("nonsense", 4000)
        self.assertEqual(status()["in_use_bytes"], told["peak"]["in_use_bytes"])
        counts = {number(row[1]) for row in cells("#faults")}
        self.assertEqual(counts, {count for count in told["faults"].values() if count > 0})

    def test_a_million_events_stay_smooth(self):
        started = time.monotonic()
        told = self.open("training", 1000000)
        peak_memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        opened = time.monotonic() - started
        self.assertEqual(status()["in_use_bytes"], told["peak"]["in_use_bytes"])
        frames = BROWSER.evaluate("""(async () => {
          const place = document.querySelector('#timeline');
          const box = place.getBoundingClientRect();
          const frames = [];
          for (let n = 0; n < 60; ++n) {
            place.dispatchEvent(new WheelEvent('wheel', {clientX: box.left + 300 + n, clientY: box.top + 200,
              deltaY: n < 30 ? -60 : 60, bubbles: true, cancelable: true}));
            const before = performance.now();
            await new Promise(requestAnimationFrame);
            await new Promise((done) => setTimeout(done, 0));
            frames.push(performance.now() - before);
          }
          return frames.sort((a, b) => a - b);
        })()""")
        print(f"a million events: made and opened in {opened:.1f} s, at most {peak_memory // 1024} MiB; "
              f"frames of a zoom: median {frames[30]:.0f} ms, 95 % within {frames[57]:.0f} ms")
        # Far from what it takes: other work on the machine may be in the way.
        self.assertLess(frames[30], 300)


def main():
    global BROWSER
    path = find_browser()
    if path is None:
        print("skipped: no Chromium on this machine (CUBFC_TEST_BROWSER=path names one)")
        return 77
    BROWSER = Browser(path)
    try:
        return 0 if unittest.main(argv=sys.argv[:1], exit=False).result.wasSuccessful() else 1
    finally:
        BROWSER.close()


if __name__ == "__main__":
    sys.exit(main())
