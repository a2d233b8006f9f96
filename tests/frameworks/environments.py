"""The Python environments with real frameworks: below build/frameworks, once, in fixed versions. And the stand-ins that they run
on, which are part of the build."""

import pathlib
import shutil
import subprocess
import sys

NO_PYPI = "Can PyPI be reached from here? PIP_INDEX_URL names a mirror of it, HTTPS_PROXY a proxy."

# What is installed. PyTorch's wheels fix the versions of NVIDIA's.
ENVIRONMENTS = {
    "torch-2.15-cu13": ["torch==2.15.0", "numpy==2.4.6", "torchvision==0.29.2", "bitsandbytes==0.50.2",
                        "onnxruntime-gpu==1.31.1", "onnx==1.23.2", "transformers==5.24.0", "accelerate==1.15.0"],
    "torch-2.7-cu12": ["torch==2.7.1", "numpy==2.4.6", "torchvision==0.22.1", "bitsandbytes==0.50.2"],
}


class Failed(Exception):
    """With what to do about it."""


def run(command, remedy=""):
    command = [str(part) for part in command]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip()[-2000:]
        raise Failed(f"{' '.join(command[:6])} …: {last}\n{remedy}".strip())
    sys.stderr.write(done.stderr)
    return done.stdout


class Environment:
    """`folder` has venv/ unless `python` is another's; the stand-ins are those of `build`."""

    def __init__(self, folder, build, python=None):
        self.folder, self.build = folder, build
        self.python = pathlib.Path(python) if python else folder / "venv/bin/python"
        self.driver = build / "tests/standin/lib"
        self.libraries = self.driver / "libraries"

    def preloaded(self):
        """What takes the place of NVIDIA's libraries: the loader takes a preloaded one for each that asks for its soname,
        before it looks where the wheels' paths lead to. No file of the environment is touched."""
        return sorted(map(str, [*self.driver.glob("libcudart.so.*"), *self.libraries.glob("libcu*.so.*")]))

    def lacks(self, modules):
        """Those of these Python modules that are not in it."""
        ask = "import importlib.util, sys; print(*(name for name in sys.argv[1:] if not importlib.util.find_spec(name)))"
        return run([self.python, "-c", ask, *modules]).split()

    def variables(self):
        return {"LD_LIBRARY_PATH": f"{self.driver}:{self.libraries}"}


def prepare(name, folder, build, say, python=sys.executable):
    environment = Environment(folder / name, build)
    wanted = "\n".join([*ENVIRONMENTS[name], run([python, "-c", "import sys; print(sys.version)"])])
    done = environment.folder / "installed"
    if not done.exists() or done.read_text(encoding="utf-8") != wanted:
        say(f"{name}: installing {ENVIRONMENTS[name][0]} and what it needs, some 2.5 GB")
        shutil.rmtree(environment.folder, ignore_errors=True)
        environment.folder.mkdir(parents=True)
        run([python, "-m", "venv", environment.folder / "venv"], "On Debian, python3-venv is missing.")
        run([environment.python, "-m", "pip", "install", "-q", "--only-binary=:all:", *ENVIRONMENTS[name]], NO_PYPI)
        done.write_text(wanted, encoding="utf-8")
    return environment


def adopt(python, folder, build):
    """An environment of the user's own, by its Python; nothing is installed into it."""
    return Environment(folder / "own", build, shutil.which(python) or python)
