#!/usr/bin/env python3
"""That each behaviour which is reported of real drivers has a test that fails without it. The software driver
reads its answers from a file: for each reported one a copy of the file says the opposite, and the tests must not
pass with it. A crash, or a test that does not end, is as good as a failure.

reported_is_noticed.py TEST_PROGRAM BEHAVIOUR_FILE"""

import concurrent.futures
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ANOTHER_ERROR = 999  # CUDA_ERROR_UNKNOWN, which nothing answers
SECONDS = 60  # for one run
AT_ONCE = 2


def opposites(section, entry):
    """What else the entry could say, as (what, entry)."""
    if section == "values":
        value = entry["value"]
        other = not value if isinstance(value, bool) else 2 * value
        yield json.dumps(other), {**entry, "value": other}
        return
    other = ANOTHER_ERROR if entry["result"] != 0 else 1
    yield f"{other}", {**entry, "result": other}
    if "capture_survives" in entry:
        survives = not entry["capture_survives"]
        yield f"the capture {'survives' if survives else 'is lost'}", {**entry, "capture_survives": survives}


def mutants(behaviour):
    """One behaviour file for each, as (name, data)."""
    for section in ("results", "values"):
        for identifier, entry in behaviour[section].items():
            # What calls take is for estimates: the driver reads none of it (STANDIN_LATENCY is what it has).
            if entry["basis"] != "reported" or identifier.startswith("latency."):
                continue
            for what, other in opposites(section, entry):
                mutant = copy.deepcopy(behaviour)
                mutant[section][identifier] = other
                yield f"{identifier}: {what}", mutant


def passes(program, behaviour, path):
    """Whether the tests pass on a driver that behaves so."""
    path.write_text(json.dumps(behaviour), encoding="utf-8")
    environment = {**os.environ, "STANDIN_BEHAVIOUR": str(path)}
    try:
        done = subprocess.run([program, "--abort"], env=environment, timeout=SECONDS, check=False,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main():
    program = sys.argv[1]
    behaviour = json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8"))
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        if not passes(program, behaviour, pathlib.Path(folder, "as_it_is.json")):
            return "the tests do not pass as it is"
        names = []
        runs = []
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as executor:
            for number, (name, mutant) in enumerate(mutants(behaviour)):
                names.append(name)
                runs.append(executor.submit(passes, program, mutant, pathlib.Path(folder, f"{number}.json")))
        unnoticed = [name for name, run in zip(names, runs) if run.result()]
    print(f"{len(names)} opposites, {time.monotonic() - start:.0f} s")
    if not names:
        return "nothing is reported"
    return "no test fails with " + "; ".join(unnoticed) if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
