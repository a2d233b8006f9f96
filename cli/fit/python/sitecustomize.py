"""Python imports this as it starts, because `cubfc fit` puts its folder first on PYTHONPATH. The program's own sitecustomize, if
it has one, is imported in its turn."""

import importlib.machinery
import importlib.util
import os
import sys

import cubfc_fit

_HERE = os.path.dirname(os.path.abspath(__file__))


def _import_next():
    others = [folder for folder in sys.path if os.path.abspath(folder or ".") != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec and spec.loader:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


cubfc_fit.wait_for_frameworks()
_import_next()
