"""Inside the program that `cubfc fit` runs: follows values on the host, counts steps, and ends the program when its peak is
known.

Changes nothing of the program's files or environment, and does nothing before the program imports PyTorch or another
framework."""

import importlib.abc
import importlib.metadata
import importlib.util
import os
import sys

__all__ = ["wait_for_frameworks"]

# Packages that cannot run here, with their names for people. NVIDIA's CUDA runtime is inside their libraries, and asks for what
# only NVIDIA's driver has.
_REFUSED = {
    "cupy": "CuPy", "jaxlib": "JAX", "tensorflow": "TensorFlow", "xgboost": "XGBoost", "rmm": "RMM", "cudf": "cuDF",
    "ctranslate2": "CTranslate2", "warp": "Warp",
}


def _tell_versions():
    """Has the stand-ins of cuDNN and cuBLAS report the versions that are installed: PyTorch chooses by them."""
    for library in ("cudnn", "cublas"):
        for name in (f"nvidia-{library}", f"nvidia-{library}-cu13", f"nvidia-{library}-cu12"):
            try:
                os.environ[f"STANDIN_{library.upper()}_VERSION"] = importlib.metadata.version(name)
                break
            except importlib.metadata.PackageNotFoundError:
                pass


def _start(_):
    from . import run
    run.start()


def _weights(function):
    def after(module):
        from . import weights
        getattr(weights, function)(module)

    return after


# Called with a module once it has been imported.
_AFTER = {"torch": _start}
if os.environ.get("CUBFC_FIT_RANDOM_WEIGHTS"):
    _AFTER |= {"transformers.modeling_utils": _weights("make_up_transformers"),
               "diffusers.models.modeling_utils": _weights("make_up_diffusers"),
               "diffusers.pipelines.pipeline_utils": _weights("download_no_weights")}


class _Finder(importlib.abc.MetaPathFinder):
    """Python asks it first for each module. Wraps the loaders of those in _AFTER and _REFUSED."""

    def __init__(self):
        self._looks_for = set()

    def find_spec(self, name, path=None, target=None):
        if (name not in _AFTER and name not in _REFUSED) or name in self._looks_for:
            return None
        self._looks_for.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looks_for.remove(name)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module):
            if name == "torch":
                _tell_versions()
            if name in _REFUSED:
                from .notes import notes
                notes.add("refused", _REFUSED[name])
                notes.write()
            load(module)
            if name in _AFTER:
                _AFTER[name](module)

        spec.loader.exec_module = exec_module
        return spec


def wait_for_frameworks():
    if os.environ.get("CUBFC_FIT_NOTES"):
        sys.meta_path.insert(0, _Finder())
