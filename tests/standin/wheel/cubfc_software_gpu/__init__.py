"""The software GPU of cubfc: a CUDA driver without a GPU."""

import os

__all__ = ["folder"]


def folder() -> str:
    """The folder with its libcuda.so.1, for LD_LIBRARY_PATH."""
    return os.path.dirname(os.path.abspath(__file__))
