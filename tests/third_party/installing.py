"""Puts a suite into a virtual environment below build/third-party: what PyPI has, and its tests. Once; then it is
there."""

import glob
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

from suites import RUNNER

HEADERS = "nvidia-cuda-runtime-cu12==12.9.79"
# The one header of the driver's API that the wheel lacks. By NVIDIA's documentation of the driver API, "Profiler
# Control".
PROFILER_HEADER = """#pragma once
#include <cuda.h>
typedef enum CUoutput_mode_enum { CU_OUT_KEY_VALUE_PAIR = 0, CU_OUT_CSV = 1 } CUoutput_mode;
extern "C" {
CUresult cuProfilerInitialize(const char* configFile, const char* outputFile, CUoutput_mode outputMode);
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);
}
"""
NO_PYPI = "Can PyPI be reached from here? PIP_INDEX_URL names a mirror of it, HTTPS_PROXY a proxy."


class Failed(Exception):
    """With what to do about it."""


class Installed:
    """Where a suite is."""

    def __init__(self, suite, folder):
        self.suite, self.folder = suite, folder

    @property
    def python(self):
        return self.folder / "venv/bin/python"

    @property
    def site(self):
        return pathlib.Path(glob.glob(str(self.folder / "venv/lib/python3*/site-packages"))[0])

    @property
    def tests(self):
        return self.folder / "tests"

    def environment(self):
        places = {"site": self.site, "here": self.folder, "compiler": pathlib.Path(__file__).parent / "compiler"}
        return {name: value.format(**places) for name, value in self.suite.environment.items()}


def install(suite, folder, library_folder, say, python=sys.executable):
    """`library_folder` has the libcuda.so that a source package is linked to."""
    installed = Installed(suite, folder / suite.name)
    state = _state(suite, python)
    done = installed.folder / "installed"
    if done.exists() and done.read_text(encoding="utf-8") == state:
        return installed
    low, high = suite.python
    version = tuple(int(part) for part in _run([python, "-c", "import sys; print(*sys.version_info[:2])"], "python").split())
    if not low <= version <= high:
        raise Failed(f"{suite.name} needs Python {_dotted(low)} to {_dotted(high)}, and {python} is {_dotted(version)}: "
                     "give one with --python")
    say(f"{suite.name}: installing {suite.source or suite.wheels[0]}")
    shutil.rmtree(installed.folder, ignore_errors=True)
    installed.folder.mkdir(parents=True)
    _run([python, "-m", "venv", str(installed.folder / "venv")],
         "python -m venv failed; on Debian, python3-venv is missing")
    _pip(installed, "install", "--only-binary=:all:", *RUNNER, *suite.wheels)
    root = _build(installed, library_folder, say) if suite.source else installed.site
    installed.tests.mkdir()
    (installed.folder / "cache").mkdir()
    for pattern in suite.only:
        for path in (root / suite.tests).glob(pattern):
            shutil.copy2(path, installed.tests)
    if suite.conftest:
        (installed.tests / "conftest.py").write_text(suite.conftest, encoding="utf-8")
    done.write_text(state, encoding="utf-8")
    return installed


def _dotted(version):
    return ".".join(map(str, version))


def _state(suite, python):
    """What is installed is made anew when this changes."""
    of = [RUNNER, suite.wheels, suite.source, suite.tests, suite.only, suite.conftest, HEADERS, PROFILER_HEADER, python]
    return hashlib.sha256(repr(of).encode()).hexdigest() + "\n"


def _run(command, remedy, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", **options)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command[:4])} …: exit status {done.returncode}\n{done.stdout[-1500:]}\n{remedy}")
    return done.stdout


def _pip(installed, *arguments):
    _run([str(installed.python), "-m", "pip", "--disable-pip-version-check", "--timeout", "20", "--retries", "2",
          arguments[0], "--quiet", "--no-deps", *arguments[1:]], NO_PYPI)


def _build(installed, library_folder, say):
    """The folder of the source package, which is installed then."""
    here = installed.folder
    _pip(installed, "download", "--no-binary=:all:", "--no-build-isolation", "--dest", str(here / "sdist"),
         installed.suite.source)
    archive = next((here / "sdist").glob("*.tar.gz"))
    with tarfile.open(archive) as file:
        file.extractall(here, filter="data")
    root = here / archive.name.removesuffix(".tar.gz")
    _pip(installed, "install", "--only-binary=:all:", "--target", str(here / "headers"), HEADERS)
    include = here / "headers/nvidia/cuda_runtime/include"
    (include / "cudaProfiler.h").write_text(PROFILER_HEADER, encoding="utf-8")
    # PyCUDA's build reads its settings from this file.
    (root / "siteconf.py").write_text(
        f"CUDA_ROOT = ''\nCUDA_INC_DIR = [{str(include)!r}]\nCUDADRV_LIB_DIR = [{str(library_folder)!r}]\n"
        "CUDADRV_LIBNAME = ['cuda']\nCURAND_LIBNAME = []\nCUDART_LIB_DIR = []\nCUDA_ENABLE_CURAND = False\n"
        "CUDA_ENABLE_GL = False\nUSE_SHIPPED_BOOST = True\nCXXFLAGS = []\nLDFLAGS = []\n", encoding="utf-8")
    say(f"{installed.suite.name}: compiling it, a minute or two")
    _run([str(installed.python), "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", str(root)],
         "a C++ compiler and Python's headers (on Debian: g++ python3-dev) are needed",
         env=os.environ | {"CFLAGS": "-O0 -w"})
    return root
