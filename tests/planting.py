"""A fault of a kind that is looked for, planted into a source of the library: libcubfc.so with it."""

import json
import os
import pathlib
import shlex
import subprocess

SHIM = pathlib.Path(__file__).resolve().parents[1] / "shim"


class Planter:
    """Builds from the objects of a build: only the changed source is compiled."""

    def __init__(self, arguments):
        self.compiler = arguments.compiler
        self.exports = arguments.exports
        self.link = [os.path.normpath(word) for word in arguments.link]
        commands = json.loads(pathlib.Path(arguments.commands).read_text(encoding="utf-8"))
        self.commands = {entry["file"]: entry for entry in commands}
        self.unities = {file: pathlib.Path(file).read_text(encoding="utf-8") for file in self.commands
                        if "/Unity/unity_" in file and pathlib.Path(file).exists()}

    @staticmethod
    def add_arguments(parser):
        parser.add_argument("--commands", required=True, help="compile_commands.json of the build")
        parser.add_argument("--compiler", default="c++", help="the C++ compiler, which links (c++)")
        parser.add_argument("--exports", required=True, help="the linker's map of what libcubfc.so exports")
        parser.add_argument("--only", default="", help="faults whose description contains this")
        parser.add_argument("link", nargs="+", help="libcubfc.so's object files and archives")

    def plant(self, name, old, new, library):
        """Writes the library; what is wrong, or nothing. `old` stands once in the source `name` of shim/."""
        original = (SHIM / name).read_text(encoding="utf-8")
        if original.count(old) != 1:
            return f"'{old}' stands in {name} {original.count(old)} times, not once"
        source, changed = (pathlib.Path(f"{library}{end}") for end in (".cpp", ".o"))
        source.write_text(original.replace(old, new), encoding="utf-8")
        file = str(SHIM / name)
        entry = self.commands.get(file)
        if entry is None:  # it is compiled together with others
            among = [each for each, text in self.unities.items() if f'"{file}"' in text]
            if len(among) != 1:
                return f"{name} is compiled in {len(among)} places, not in one"
            entry = self.commands[among[0]]
            together = pathlib.Path(f"{library}.unity.cpp")
            together.write_text(self.unities[among[0]].replace(f'"{file}"', f'"{source}"'), encoding="utf-8")
            source = together
        words = shlex.split(entry["command"])
        its_object = words[words.index("-o") + 1]
        command = [str(source) if word == entry["file"] else str(changed) if word == its_object else word
                   for word in words]
        subprocess.run([*command, "-w"], check=True, cwd=entry["directory"])
        its_object = os.path.normpath(pathlib.Path(entry["directory"]) / its_object)
        if its_object not in self.link:
            return f"{its_object} is not among the objects"
        subprocess.run([self.compiler, "-shared", "-o", library, f"-Wl,--version-script={self.exports}",
                        "-Wl,-Bsymbolic-functions", "-Wl,--exclude-libs,ALL",
                        *(str(changed) if word == its_object else word for word in self.link), "-ldl", "-pthread"],
                       check=True)
        return ""


def report(results):
    """`results`: (what, why it was not caught, or nothing) of each. The exit status."""
    missed = 0
    for what, why_not in results:
        print(f"{f'NOT CAUGHT ({why_not})' if why_not else 'caught'}: {what}", flush=True)
        missed += bool(why_not)
    print(f"{missed} faults were not caught" if missed else "every fault was caught")
    return 1 if missed else 0
