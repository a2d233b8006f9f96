#!/usr/bin/env python3
"""Writes which functions the stand-ins of NVIDIA's libraries have, beside those that are written by hand.

usage: functions.py FOLDER...

Reads the exports of libcublas, libcublasLt, libcudnn, libcusparse and libcusolver under these folders (as of several Python
environments, so that each version's are there), and writes functions/*.inc beside this file, which are part of the project. Names
that the files have already stay. A function that is not written by hand

  COMPUTES  works on device memory: a launch of a kernel that does nothing in the handle's stream, with the same arguments
  COMPUTES_INFO5, COMPUTES_INFO8   likewise, and says at the host, through its 5th or 8th argument behind the handle, that all went well
  ANSWERS   computes a number: likewise where the handle's numbers are in device memory; else it fails, and says its name
  CREATES   by its name makes a descriptor, through its first argument
  DESTROYS  unmakes one
  SETS      sets a property of one: nothing happens, and that succeeds
  FAILS     all others: says its name on stderr, once, and returns the library's status for what is not supported

Exit status: 0, or 1 with what is wrong on stderr.
"""
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
NUMBERS = r"cublasI?[SDCZsdcz]*(dot|nrm2|asum|amax|amin|rotm?g|Dot|Nrm2|Asum|Iam|rotg|rotmg)"
# The library, what it exports, and what of it computes.
LIBRARIES = {
    "cublas": (r"cublas(?!Lt)[A-Z]\w+", r"cublas([SDCZ]|Gemm)"),
    "cublasLt": (r"cublasLt[A-Z]\w+", None),
    "cudnn": (r"cudnn[A-Z]\w+", r"cudnn(BatchNormalization|PoolingForward)"),
    "cusparse": (r"cusparse[A-Z]\w+", None),
    "cusolver": (r"cusolver[A-Z]\w+", None),
}


def kind_of(function, computes):
    for kind, pattern in (("ANSWERS", NUMBERS), ("COMPUTES_INFO5", r"cublas[SDCZ]geqrfBatched"),
                          ("COMPUTES_INFO8", r"cublas[SDCZ](gels|getrs)Batched"), ("COMPUTES", computes), ("CREATES", r"[a-z]+(Dn|Lt)?Create"),
                          ("DESTROYS", r"[a-z]+(Dn|Lt)?Destroy"), ("SETS", r"[a-z]+(Dn|Lt)?Set|cusolverDnXgesvdjSet")):
        if pattern and re.match(pattern, function):
            return kind
    return "FAILS"


def exports_of(library):
    done = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"functions.py: {library}: {done.stderr.strip()}")
    return {line.split()[-1].partition("@")[0] for line in done.stdout.splitlines() if " T " in line}


def main():
    if len(sys.argv) < 2 or not all(pathlib.Path(folder).is_dir() for folder in sys.argv[1:]):
        sys.exit(__doc__)
    for name, (pattern, computes) in LIBRARIES.items():
        file = HERE / f"functions/{name}.inc"
        found = set(re.findall(r"\((\w+)\)", file.read_text(encoding="utf-8"))) if file.exists() else set()
        libraries = [path for folder in sys.argv[1:] for path in sorted(pathlib.Path(folder).rglob(f"lib{name}.so.*"))]
        if not libraries:
            print(f"functions.py: there is no lib{name} there: its functions stay as they are", file=sys.stderr)
        for library in libraries:
            found |= {function for function in exports_of(library) if re.fullmatch(pattern, function)}
        by_hand = set(re.findall(r"^STANDIN_EXPORT [^(]*?(\w+)\(", (HERE / f"{name}.cpp").read_text(encoding="utf-8"), re.M))
        lines = [f"{kind_of(function, computes)}({function})" for function in sorted(found - by_hand)]
        file.parent.mkdir(exist_ok=True)
        file.write_text("// Written by functions.py.\n" + "\n".join(lines) + "\n", encoding="utf-8")
        print(f"{file.name}: {len(lines)}")


if __name__ == "__main__":
    main()
