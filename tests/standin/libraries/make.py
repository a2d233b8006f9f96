#!/usr/bin/env python3
"""Makes stand-ins of NVIDIA's libraries for the programs of one Python environment.

usage: make.py [--cudart FOLDER] SITE_PACKAGES OUT

Reads which functions the environment's shared objects leave undefined of each library (cuBLAS, cuBLASLt, cuDNN,
cuSPARSE, cuSOLVER), and writes to OUT a library of the same soname and symbol versions for each that is asked for, and an
libnvidia-ml.so.1. The CUDA runtime is the one in FOLDER where that has the version that the environment asks for; else it is
compiled with the environment's headers. What is written by hand stands in the *.cpp beside this file; of the rest, a function is

  creates   by its name makes a descriptor, through its first argument
  destroys  unmakes one
  sets      sets a property of one: nothing happens, and that succeeds
  computes  works on device memory: a launch of a kernel that does nothing in the handle's stream, which gets the same arguments
  fails     all others: says its name on stderr, once, and returns the library's status for what is not supported

Prints the sonames that it made. Exit status: 0, or 1 with what is wrong on stderr.
"""
import collections
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
COMPILER = ["c++", "-std=c++20", "-O1", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror"]

Library = collections.namedtuple("Library", "pattern status computes")
# The soname; its status for "not supported"; what computes. A cuBLAS function that returns a number of the host's (dot,
# norms, index of the largest, rotations' parameters) would pretend a result, and fails.
LIBRARIES = {
    "cublas": Library(r"libcublas\.so\.\d+", 15, r"cublas([SDCZ](?!.*(dot|nrm2|asum|amax|amin|rotm?g))|Gemm)"),
    "cublasLt": Library(r"libcublasLt\.so\.\d+", 15, None),
    "cudnn": Library(r"libcudnn\.so\.\d+", 3000, r"cudnn(BatchNormalization|PoolingForward)"),
    "cusparse": Library(r"libcusparse\.so\.\d+", 10, None),
    "cusolver": Library(r"libcusolver\.so\.\d+", 9, None),
}

# As many arguments as any function has, and what lies behind those of others on the caller's stack.
WORDS = [f"word{i}" for i in range(1, 20)]

CUDART = r"libcudart\.so\.\d+"
# What CUDA's headers include that is only in NVIDIA's compiler package: how a host compiler reads the markers of CUDA C++.
HOST_DEFINES = """#pragma once
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __no_return__ __attribute__((noreturn))
#define __noinline__ __attribute__((noinline))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __inline_hint__
#define __specialization_static static
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __thread__ __thread
#define __import__
#define __export__
#define __cdecl
#define __annotate__(a) __attribute__((a))
#define __location__(a) __annotate__(a)
#define CUDARTAPI
#define CUDARTAPI_CDECL
"""


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"make.py: {' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def wanted_of(folder):
    """{soname: {function}} that the shared objects under `folder` leave undefined, by the version of the symbol."""
    wanted = collections.defaultdict(set)
    sonames = re.compile("|".join(f"(?:{pattern})$" for pattern in (CUDART, *(library.pattern for library in LIBRARIES.values()))))
    # NVIDIA's own libraries are what is stood in for.
    objects = [path for path in sorted(folder.rglob("*.so*"))
               if not path.is_symlink() and path.relative_to(folder).parts[0] != "nvidia" and is_elf(path)]
    if not objects:
        return wanted
    for line in run(["nm", "-D", "--undefined-only", "--quiet", *objects]).splitlines():
        name, _, version = line.split()[-1].partition("@") if line.strip() else ("", "", "")
        if sonames.match(version.lstrip("@")):
            wanted[version.lstrip("@")].add(name)
    installed = {path.name for path in folder.glob("nvidia/**/lib*.so.*")}
    # cuDNN's frontend, which is compiled into frameworks, can open the library and look functions up by their names.
    named = {name.decode() for path in objects for name in re.findall(rb"\0(cudnn[A-Z]\w*)(?=\0)", path.read_bytes())}
    for soname in {name for name in {*wanted, *installed} if re.fullmatch(LIBRARIES["cudnn"].pattern, name)}:
        wanted[soname] |= named
    # What has a build for each version of CUDA, as bitsandbytes, uses the one that is installed.
    return {soname: functions for soname, functions in wanted.items()
            if soname in installed or not any(name.split(".so.")[0] == soname.split(".so.")[0] for name in installed)}


def number(folder, header, name, otherwise, under="nvidia/**/"):
    """The number that `#define name` has in the first header of that name under the environment's nvidia folder."""
    for path in sorted(folder.glob(f"{under}{header}")):
        found = re.search(rf"#define\s+{name}\s+(\d+)", path.read_text(errors="replace"))
        if found:
            return int(found[1])
    return otherwise


def versions_of(folder):
    cudnn = [number(folder, "cudnn_version.h", f"CUDNN_{part}", other)
             for part, other in (("MAJOR", 9), ("MINOR", 0), ("PATCHLEVEL", 0))]
    cublas = [number(folder, "cublas_api.h", f"CUBLAS_VER_{part}", other)
              for part, other in (("MAJOR", 13), ("MINOR", 0), ("PATCH", 0))]
    return [f"-DSTANDIN_CUDNN_VERSION={cudnn[0] * 10000 + cudnn[1] * 100 + cudnn[2]}",
            f"-DSTANDIN_CUBLAS_VERSION={cublas[0] * 10000 + cublas[1] * 100 + cublas[2]}",
            f"-DSTANDIN_CUDA_VERSION={number(folder, 'cuda_runtime_api.h', 'CUDART_VERSION', 13000)}"]


def kind_of(function, library):
    if library.computes and re.match(library.computes, function):
        return "computes"
    for kind, pattern in (("creates", r"[a-z]+(Dn)?Create"), ("destroys", r"[a-z]+(Dn)?Destroy"),
                          ("sets", r"[a-z]+(Dn)?Set")):
        if re.match(pattern, function):
            return kind
    return "fails"


def body_of(function, library, soname):
    return {
        "computes": f"int {function}(void* handle, {', '.join(f'const void* {word}' for word in WORDS)}) {{ "
                    f"const void* const words[] = {{{', '.join(WORDS)}}}; "
                    "return standin_computes(handle, words, sizeof(words) / sizeof(*words)); }",
        "creates": f"int {function}(void** out) {{ if (!out) return 1; *out = ::operator new(1); return 0; }}",
        "destroys": f"int {function}(void* made) {{ ::operator delete(made); return 0; }}",
        "sets": f"int {function}() {{ return 0; }}",
        "fails": f'int {function}() {{ return standin_not_served("{soname}", "{function}", {library.status}); }}',
    }[kind_of(function, library)]


def defined_by(object_file):
    return {line.split()[-1] for line in run(["nm", "--defined-only", "--extern-only", object_file]).splitlines()}


def make(soname, name, functions, out, flags):
    sources = [HERE / "library.cpp"]
    hand = HERE / f"{name}.cpp"
    by_hand = set()
    if hand.exists():
        run([*COMPILER, *flags, "-I", HERE, "-c", hand, "-o", out / f"{name}.o"])
        by_hand = defined_by(out / f"{name}.o")
        sources.append(out / f"{name}.o")
    library = LIBRARIES[name]
    generated = out / f"{name}.generated.cpp"
    generated.write_text("\n".join([
        "#include <new>",
        "#include <cstddef>",
        'extern "C" int standin_computes(void* handle, const void* const* words, std::size_t count);',
        'extern "C" int standin_not_served(const char* library, const char* name, int status);',
        *(f'extern "C" __attribute__((visibility("default"))) {body_of(function, library, soname)}'
          for function in sorted(functions - by_hand)), ""]))
    versions = out / f"{name}.map"
    versions.write_text(f"{soname} {{ global: {name}*; local: *; }};\n")
    run([*COMPILER, *flags, "-I", HERE, "-shared", "-o", out / soname, f"-Wl,-soname,{soname}", "-Wl,-Bsymbolic",
         "-Wl,-z,nodelete", f"-Wl,--version-script={versions}", *sources, generated, "-ldl"])


def make_cudart(soname, functions, folder, out, made):
    """`made` is a folder that may have it already."""
    if made and (made / soname).exists():
        shutil.copy2(made / soname, out / soname)
    else:
        headers = [path.parent for path in sorted(folder.glob("nvidia/**/cuda_runtime_api.h"))
                   if soname == f"libcudart.so.{number(path.parent, path.name, 'CUDART_VERSION', 0, '') // 1000}"]
        if not headers:
            print(f"make.py: {soname} is not made: {folder} has no headers of it (PyPI: nvidia-cuda-runtime of that version), "
                  "and the build's toolkit is another. What asks for it does not run", file=sys.stderr)
            return False
        (out / "crt").mkdir(exist_ok=True)
        (out / "crt/host_defines.h").write_text(HOST_DEFINES)
        versions = out / "cudart.map"
        versions.write_text(f"{soname} {{ global: cuda*; __cuda*; local: *; }};\n")
        sources = [path for path in sorted((HERE.parent / "cudart").glob("*.cpp"))
                   if path.name != "program.cpp" and not path.name.endswith("_test.cpp")]
        run([*COMPILER, "-fvisibility=default", "-isystem", headers[0], "-isystem", out, "-shared", "-o", out / soname,
             f"-Wl,-soname,{soname}", "-Wl,-Bsymbolic", "-Wl,-z,nodelete", f"-Wl,--version-script={versions}", *sources,
             "-ldl"])
    lacks = functions - {line.split()[-1].partition("@")[0] for line in run(["nm", "-D", "--defined-only", out / soname]).splitlines()}
    for name in sorted(lacks):
        print(f"make.py: {soname} has no {name}: what needs it does not load", file=sys.stderr)
    return True


def main():
    arguments = sys.argv[1:]
    made = pathlib.Path(arguments[1]) if arguments[:1] == ["--cudart"] and len(arguments) > 1 else None
    arguments = arguments[2:] if made else arguments
    if len(arguments) != 2 or not pathlib.Path(arguments[0]).is_dir():
        sys.exit(__doc__)
    folder, out = pathlib.Path(arguments[0]), pathlib.Path(arguments[1])
    out.mkdir(parents=True, exist_ok=True)
    flags = versions_of(folder)
    for soname, functions in sorted(wanted_of(folder).items()):
        if re.fullmatch(CUDART, soname):
            if not make_cudart(soname, functions, folder, out, made):
                continue
        else:
            name = next(name for name, library in LIBRARIES.items() if re.fullmatch(library.pattern, soname))
            make(soname, name, functions, out, flags)
        print(soname)
    run([*COMPILER, "-I", HERE, "-shared", "-o", out / "libnvidia-ml.so.1", "-Wl,-soname,libnvidia-ml.so.1",
         HERE / "library.cpp", HERE / "nvml.cpp", "-ldl"])
    print("libnvidia-ml.so.1")


if __name__ == "__main__":
    main()
