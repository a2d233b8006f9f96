"""Inside the program that `cubfc fit` runs: follows values on the host, counts steps, and ends the program when its peak is known.

Changes nothing of the program's files or environment. Nothing is done before the program imports PyTorch."""

import importlib.abc
import importlib.util
import os
import sys

__all__ = ["wait_for_frameworks"]

# Their CUDA runtime is inside their libraries, which ask NVIDIA's driver for what no other driver has.
_REFUSED = {
    "cupy": "CuPy", "jaxlib": "JAX", "tensorflow": "TensorFlow", "xgboost": "XGBoost", "rmm": "RMM", "cudf": "cuDF",
    "ctranslate2": "CTranslate2", "warp": "Warp",
}


class _Finder(importlib.abc.MetaPathFinder):
    """Is asked first for each module, and does something once torch has been imported."""

    def __init__(self):
        self._is_looking = False

    def find_spec(self, name, path=None, target=None):
        if name in _REFUSED:
            from .notes import notes
            notes.add("refused", _REFUSED[name])
            notes.write()
        if name != "torch" or self._is_looking:
            return None
        self._is_looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._is_looking = False
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            sys.meta_path.remove(self)
            _start()

        spec.loader.exec_module = exec_module
        return spec


def wait_for_frameworks():
    if os.environ.get("CUBFC_FIT_NOTES"):
        sys.meta_path.insert(0, _Finder())


def _start():
    from . import run
    run.start()
