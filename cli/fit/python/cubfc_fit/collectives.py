"""NCCL cannot run here: its CUDA runtime is inside it. Gloo takes its place in every group of processes. What NCCL would take
of a GPU follows from the number of its communicators (cli/fit/nccl.h).

Some versions of Gloo lack what NCCL has. An average is computed as a sum and divided here. A collective that Gloo does not know
is replaced by one that moves none of its data: its results are guesses, and it takes as much memory."""

import functools
import inspect

import torch

from .notes import notes

_COLLECTIVES = ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor", "all_gather_into_tensor", "all_to_all",
                "all_to_all_single", "gather", "scatter", "all_gather", "broadcast")


def run_by_gloo():
    """Called before the program makes a group of processes."""
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        return
    from torch.distributed import distributed_c10d as c10d
    make = getattr(c10d, "_new_process_group_helper", None)
    if make is None:
        return
    signature = inspect.signature(make)

    @functools.wraps(make)
    def with_gloo(*arguments, **named):
        bound = signature.bind(*arguments, **named)
        given = bound.arguments
        backend = str(given["backend"]).lower()
        if "nccl" not in backend and backend != "undefined":
            return make(*arguments, **named)
        # These arguments are for NCCL, not for Gloo.
        for name in ("backend_options", "pg_options", "device_id"):
            if name in given:
                given[name] = None
        given["backend"] = c10d.Backend("gloo")
        notes.communicator(given["group_size"])
        return make(*bound.args, **bound.kwargs)

    c10d._new_process_group_helper = with_gloo
    for name in _COLLECTIVES:
        if hasattr(c10d, name):
            function = _by_what_gloo_has(c10d, getattr(c10d, name))
            setattr(c10d, name, function)
            setattr(torch.distributed, name, function)


def _by_what_gloo_has(c10d, collective):
    signature = inspect.signature(collective)
    all_reduce = c10d.all_reduce

    @functools.wraps(collective)
    def function(*arguments, **named):
        bound = signature.bind(*arguments, **named)
        given = bound.arguments
        if c10d.get_backend(given.get("group")) != "gloo":
            return collective(*arguments, **named)
        is_average = given.get("op") == c10d.ReduceOp.AVG
        if is_average:
            given["op"] = c10d.ReduceOp.SUM
        try:
            work = collective(*bound.args, **bound.kwargs)
        except RuntimeError as error:
            if "support" not in str(error):
                raise
            work = all_reduce(torch.zeros(1), group=given.get("group"), async_op=bool(given.get("async_op")))
        result = next(iter(given.values()))  # a tensor, or a list of one from each rank
        if is_average and isinstance(result, torch.Tensor) and not given.get("async_op"):
            result.div_(c10d.get_world_size(given.get("group")))
        return work

    return function
