"""Operators whose result is as large as a value says: nonzero, masks, unique, bincount. PyTorch's code for GPUs computes the
number of elements on the device, reads it back, and allocates. Here it does the same, but the number is computed in this file:
the software driver answers the thread's next reads of a number with it (standin_answer_reads()).
"""

import ctypes

import torch

from .notes import notes
from .shadows import GUESSED, TRUE, Everywhere, shadows

_driver = None


def _answer(numbers):
    global _driver
    if _driver is None:
        _driver = ctypes.CDLL("libcuda.so.1")
    _driver.standin_answer_reads((ctypes.c_uint64 * len(numbers))(*(int(number) & (2**64 - 1) for number in numbers)), len(numbers))


def end():
    """Called after the operator: the driver forgets numbers that were not read."""
    _answer([])


class _Known:
    """The values of tensors on the host, and how sure the sizes are that follow from them."""

    def __init__(self):
        self.certainty, self.took_all = TRUE, False

    def __call__(self, tensor):
        """The values; None where they are not known, or are one guess for all elements. Then as many elements are taken as
        there can be. Guesses that differ, such as which row goes to which expert, are returned: they are consistent with each
        other."""
        if not tensor.is_cuda:
            return tensor
        shadow = shadows.of(tensor)
        self.certainty |= shadow.certainty
        values = shadows.view(tensor)
        if values is None or (type(shadow) is Everywhere and shadow.certainty & GUESSED):
            self.certainty |= GUESSED
            self.took_all = True
            return None
        return values

    def one_value(self, tensor):
        """The value of a tensor that has one everywhere, which is no guess; else None."""
        shadow = shadows.of(tensor) if tensor.is_cuda else None
        return shadow.value[0] if type(shadow) is Everywhere and not shadow.certainty & GUESSED else None


def _trues(mask, known):
    """How many elements are not zero; all of them where that is not known."""
    everywhere = known.one_value(mask)
    if everywhere is not None:
        return mask.numel() if bool(everywhere) else 0
    values = known(mask)
    trues = None if values is None else int(torch.count_nonzero(values))
    if trues == 0 and mask.is_cuda and known.certainty & GUESSED:
        trues = None  # a comparison with one guess gave all elements the same answer
        known.took_all = True
    return mask.numel() if trues is None else trues


def _nonzero(args, kwargs, known):
    return [_trues(args[0], known)]


def _masked_select(args, kwargs, known):
    size = torch.broadcast_shapes(args[0].size(), args[1].size())
    return [_trues(args[1].expand(size), known)]


def _index(args, kwargs, known):
    masks = [index for index in args[1] if isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8)]
    return [_trues(mask, known) for mask in masks] or None


def _unique(args, kwargs, known):
    values = known(args[0])
    return [args[0].numel() if values is None else torch.unique(values).numel()]


def _unique_consecutive(args, kwargs, known):
    values = known(args[0])
    return [args[0].numel() if values is None else torch.unique_consecutive(values).numel()]


def _unique_dim(args, kwargs, known):
    values = known(args[0])
    dimension = args[1] if len(args) > 1 else kwargs["dim"]
    return [args[0].size(dimension) if values is None else torch.unique(values, dim=dimension).size(dimension)]


def _coalesce(args, kwargs, known):
    """How many elements of a sparse tensor are at different places."""
    places = args[0]._indices()
    values = known(places)
    return [places.size(1) if values is None else torch.unique(values, dim=1).size(1)]


def _bincount(args, kwargs, known):
    values = known(args[0])
    if values is None or not values.numel():
        return None
    return [int(values.min()), int(values.max())]


def _repeat_interleave(args, kwargs, known):
    values = known(args[0])
    if values is None or kwargs.get("output_size") is not None:
        return None
    return [int(values.sum()), 1]  # and, in some versions, whether none is negative


_LARGE_NORM = {torch.float32: 0x447A0000, torch.complex64: 0x447A0000,  # the bits of 1000.0, a norm with many squarings
               torch.float64: 0x408F400000000000, torch.complex128: 0x408F400000000000}
_SQUARINGS = 9  # of a matrix of that norm


def _matrix_exp(args, kwargs, known):
    """The larger the norm of a matrix, the more memory its exponential takes: a polynomial of a higher degree, and squarings.
    All matrices are taken for large, and alike: they are one group, with so many squarings."""
    matrix = args[0]
    matrices = matrix.numel() // max(matrix.size(-1) ** 2, 1)
    if matrix.size(-1) < 2 or not matrices:
        return None
    notes.add("norm", "matrix_exp")
    norm = [_LARGE_NORM[matrix.dtype]] if matrices == 1 and matrix.dtype in _LARGE_NORM else []
    return [*norm, 1, matrices, _SQUARINGS]


_EXPECTED = {"aten::nonzero": _nonzero, "aten::masked_select": _masked_select, "aten::index": _index,
             "aten::index_put_": _index, "aten::index_put": _index, "aten::_index_put_impl_": _index, "aten::_unique2": _unique,
             "aten::_unique": _unique, "aten::unique_consecutive": _unique_consecutive,
             "aten::unique_dim": _unique_dim, "aten::_coalesce": _coalesce, "aten::_to_sparse": _nonzero, "aten::_to_sparse_csr": _nonzero,
             "aten::_to_sparse_csc": _nonzero, "aten::bincount": _bincount,
             "aten::repeat_interleave": _repeat_interleave, "aten::linalg_matrix_exp": _matrix_exp}
# Operators that check values, and the numbers that their checks must read.
_CHECKS = {"aten::multinomial": [1, 0], "aten::segment_reduce": [0, 1]}  # the least length; whether they add up


def expected(func, facts, args, kwargs, tensors):
    """The numbers that the operator is going to read, which the driver now knows; or None."""
    if not tensors or not tensors[0].is_cuda:
        return None
    if facts.name in _CHECKS:
        numbers = _CHECKS[facts.name]
    elif facts.name in _EXPECTED:
        known = _Known()
        numbers = _EXPECTED[facts.name](args, kwargs, known)
        if numbers is None:
            return None
        if known.certainty & GUESSED:
            notes.size(facts.name, known.took_all)
    else:
        return None
    _answer(numbers)
    return numbers
