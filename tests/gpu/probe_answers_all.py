#!/usr/bin/env python3
"""The probe's test: on the software driver it must answer every id of the behaviour data, no other, and
find what that data says, since the software driver was made from it."""

import json
import os
import subprocess
import sys
import tempfile
import time


def main():
    probe, documented, compare = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "observed.json")
        start = time.monotonic()
        done = subprocess.run([probe, "--may-fill", "--output", output], check=False)
        if done.returncode != 0:
            return f"the probe ended with {done.returncode}"
        print(f"{time.monotonic() - start:.1f} s")
        with open(documented, encoding="utf-8") as file:
            wanted = json.load(file)
        with open(output, encoding="utf-8") as file:
            observed = json.load(file)
        # What only a driver that limits this process can answer, the probe says that it has not asked.
        for name in [name for name in observed["unanswered"] if name.startswith("driver_limit.")]:
            del wanted["values"][name]
        if not observed["gpu"] or not observed["cuda"]:
            return "the probe does not say whose answers they are"
        for section in ("results", "values"):
            missing = wanted[section].keys() - observed[section].keys()
            excess = observed[section].keys() - wanted[section].keys()
            if missing or excess:
                return f"{section}: missing {sorted(missing)}, too many {sorted(excess)}"
        for section in ("results", "values"):
            for identifier, entry in observed[section].items():
                if entry["basis"] != "observed":
                    return f"{identifier} is not marked as observed"
        asked = os.path.join(folder, "asked.json")
        with open(asked, "w", encoding="utf-8") as file:
            json.dump(wanted, file)
        compared = subprocess.run([sys.executable, compare, asked, output], check=False)
        if compared.returncode != 0:
            return "the software driver does not do what its data says, or the probe does not see it"
    return 0


if __name__ == "__main__":
    sys.exit(main())
