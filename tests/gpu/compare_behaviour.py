#!/usr/bin/env python3
"""Compares two files of driver behaviour (tests/gpu/behaviour): what one driver answers and another does
not, or answers otherwise. Exit 0 when they agree, 1 when they differ, 2 for an unreadable file.

  compare_behaviour.py documented.json observed.json
  compare_behaviour.py documented.json observed.json --merge merged.json
      writes the first file with the second one's answers in the place of its own
"""

import argparse
import json
import sys

FORMAT = "cubfc-behaviour-1"


def load(path):
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except (OSError, ValueError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        sys.exit(2)
    if data.get("format") != FORMAT:
        print(f"{path}: not of the format {FORMAT}", file=sys.stderr)
        sys.exit(2)
    return data


def result_text(entry):
    survives = entry.get("capture_survives")
    fate = "" if survives is None else ", the capture survives" if survives else ", the capture is lost"
    return f"{entry['name']} ({entry['result']}){fate}"


def value_text(entry):
    return json.dumps(entry["value"])


def is_timing(identifier):
    """Times are never equal; they are no difference in behaviour."""
    return identifier.startswith("latency.")


def differences(first, second):
    """Lines of text, sorted by id."""
    for section, text in (("results", result_text), ("values", value_text)):
        one, two = first.get(section, {}), second.get(section, {})
        for identifier in sorted(one.keys() | two.keys()):
            if is_timing(identifier):
                continue
            if identifier not in two:
                why = second.get("unanswered", {}).get(identifier, "not there")
                yield f"{identifier}: only in the first ({text(one[identifier])}); second: {why}"
            elif identifier not in one:
                yield f"{identifier}: only in the second ({text(two[identifier])})"
            elif text(one[identifier]) != text(two[identifier]):
                basis = one[identifier].get("basis", "?")
                yield f"{identifier}: {basis} {text(one[identifier])}, then {text(two[identifier])}"


def merged(first, second):
    result = dict(first)
    for key in ("source", "gpu", "driver", "cuda", "date"):
        result[key] = second.get(key)
    for section in ("results", "values"):
        result[section] = {
            identifier: second.get(section, {}).get(identifier, entry)
            for identifier, entry in first[section].items()
        }
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("first")
    parser.add_argument("second")
    parser.add_argument("--merge", metavar="FILE")
    arguments = parser.parse_args()
    first, second = load(arguments.first), load(arguments.second)
    lines = list(differences(first, second))
    print("\n".join(lines) if lines else "no difference")
    if arguments.merge:
        with open(arguments.merge, "w", encoding="utf-8") as file:
            json.dump(merged(first, second), file, indent=2, ensure_ascii=False)
            file.write("\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
