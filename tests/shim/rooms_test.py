#!/usr/bin/env python3
"""The rooms of shim/: which file may include which.

A room is a folder; it knows the rooms below it, and none above. The rooms of one floor do not know
each other. Fails with the include that breaks this, or with the longest way from a file down to one
that includes none of shim/'s when that is more than MOST_FLOORS files long.

usage: rooms_test.py SHIM_FOLDER
"""
import pathlib
import re
import sys

# From the top. The files beside the rooms (process.h and so on) are the floor below hook.
FLOORS = [["hook"], ["."], ["ask"], ["serve"], ["background"], ["sleep"], ["source"], ["servers", "wait"], ["share"], ["device"], ["limit"],
          ["driver", "meet"], ["record"], ["loader", "tell"]]
MOST_FLOORS = 8
PUBLIC = {"cubfc.h", "patience.h"}  # what anybody may include, for they know nobody


def includes_of(file):
    return re.findall(r'^#include "shim/([^"]+)"', file.read_text(), re.MULTILINE)


def room_of(name):
    return str(pathlib.PurePath(name).parent)


def main():
    shim = pathlib.Path(sys.argv[1])
    floor = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
    files = {
        str(file.relative_to(shim)): includes_of(file)
        for file in sorted(shim.rglob("*"))
        if file.suffix in (".h", ".cpp")
    }
    faults = []
    for name, includes in files.items():
        room = room_of(name)
        if room not in floor:
            faults.append(f"{name}: shim/{room} is no room that this test knows")
            continue
        for included in includes:
            other = room_of(included)
            if included not in files:
                faults.append(f"{name} includes {included}, which is not there")
            elif other != room and floor[other] <= floor[room] and included not in PUBLIC:
                faults.append(f"{name} includes {included}, which is not below it")
    for rooms in FLOORS:
        for room in rooms:
            if not (shim / room / "README.md").exists():
                faults.append(f"shim/{room} has no README.md that says what it knows")

    def way_down(name, above=()):
        if name in above:
            faults.append("a circle: " + " -> ".join([*above, name]))
            return []
        below = [way_down(each, (*above, name)) for each in files.get(name, [])]
        return [name, *max(below, key=len, default=[])]

    longest = max((way_down(name) for name in files), key=len)
    if len(longest) > MOST_FLOORS:
        faults.append(f"{len(longest)} floors: " + " -> ".join(longest))
    if faults:
        sys.exit("\n".join(faults))
    print(f"{len(files)} files; the longest way down has {len(longest)}: " + " -> ".join(longest))


if __name__ == "__main__":
    main()
