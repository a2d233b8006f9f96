"""Loops that wait for a value which only a GPU computes, such as `while norm > eps`. Guesses keep such loops going for ever.

A read of a guess counts where it decides whether a `while` of the program's own code goes on. When one line has read many
times, and memory was the same each time, its next reads get other answers, one after the other. Most conditions are met by one
of them, and what follows the loop is seen. Where none ends the loop, the program is ended. Both are told."""

import ast
import os
import sys

import torch

from .notes import HERE, notes

_READS = 500  # of one line, before it gets other answers
_READS_OF_EACH = 4  # get the same answer: a condition may read several values
_NUMBERS = (0.0, 1e30, -1e30)
_INDICES = (0, 1, 2, 3, 4, 5, 6, 7)


def _names_in(node):
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _statements_in(node):
    """What stands within a loop or a condition, but not in functions that are defined there."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            yield child
            yield from _statements_in(child)


def _deciding_lines(loop):
    """The lines that decide when a `while` ends: its condition, conditions around a `break` or `return`, and what assigns the
    names in them."""
    conditions = [loop.test] + [each.test for each in _statements_in(loop) if isinstance(each, ast.If) and any(
        isinstance(inner, (ast.Break, ast.Return)) for inner in _statements_in(each))]
    names = set().union(*map(_names_in, conditions))
    assignments = []
    for each in _statements_in(loop):
        if isinstance(each, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr)):
            targets = each.targets if isinstance(each, ast.Assign) else [each.target]
            assignments.append((each, set().union(*map(_names_in, targets))))
    deciding, known = list(conditions), -1
    while known != len(names):  # also the lines that assign a name which a deciding line reads
        known = len(names)
        for each, targets in assignments:
            if targets & names and each not in deciding:
                deciding.append(each)
                names |= _names_in(each.value) if each.value is not None else set()
    return {line for each in deciding for line in range(each.lineno, each.end_lineno + 1)}


class _Loops:
    """Which lines of a file decide whether a `while` goes on."""

    def __init__(self):
        self._lines = {}  # by file

    def decides(self, path, line):
        if path not in self._lines:
            self._lines[path] = self._lines_of(path)
        return line in self._lines[path]

    @staticmethod
    def _lines_of(path):
        try:
            with open(path, encoding="utf-8") as file:
                tree = ast.parse(file.read())
        except (OSError, SyntaxError, ValueError):
            return set()
        return set().union(*(_deciding_lines(node) for node in ast.walk(tree) if isinstance(node, ast.While)))


def _is_the_programs(path):
    return not path.startswith(("<", HERE)) and f"{os.sep}site-packages{os.sep}" not in path and f"{os.sep}lib{os.sep}python" not in path


class _Line:
    """How often a line has read since memory was last higher than at all its reads before, and the most memory then, in
    bytes."""

    def __init__(self):
        self.reads, self.most = 0, -1


class Waits:
    """Only for the thread that holds the mode's lock."""

    def __init__(self):
        self._loops = _Loops()
        self._lines = {}
        self._is_off = not int(os.environ.get("CUBFC_FIT_STEPS") or 0)
        self.answered = ""  # the last line that got another answer
        self.end = None  # called when no answer has ended a loop

    def answer(self, guess):
        """The number that a read is to give in place of `guess`, which is a guess; or `guess` itself."""
        where = None if self._is_off else self._waiting()
        if where is None:
            return guess
        line = self._lines.setdefault(where, _Line())
        line.reads += 1
        allocated = sum(torch.cuda.memory_allocated(device) for device in range(torch.cuda.device_count()))
        if allocated > line.most:
            line.reads, line.most = 0, allocated
        if line.reads <= _READS:
            return guess
        answers = _INDICES if isinstance(guess, int) and not isinstance(guess, bool) else _NUMBERS
        if isinstance(guess, bool):
            answers = (not guess,)
        which = (line.reads - _READS - 1) // _READS_OF_EACH
        self.answered = where
        if which < len(answers):
            if (line.reads - _READS - 1) % _READS_OF_EACH == 0:
                notes.add("waits", "a loop")
            return type(guess)(answers[which])
        if line.reads > _READS + (len(answers) + 1) * _READS_OF_EACH and self.end:
            self.end()
        return guess

    def _waiting(self):
        """The line of the program's own code that reads, where it decides whether a `while` goes on, or a call does that led to
        it; else None."""
        frame = sys._getframe(2)
        first = None
        while frame:
            path = frame.f_code.co_filename
            if _is_the_programs(path):
                first = first or f"{path}:{frame.f_lineno}"
                if self._loops.decides(path, frame.f_lineno):
                    return first
            frame = frame.f_back
        return None


waits = Waits()
