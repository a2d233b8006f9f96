"""What is known of PyTorch's operators: from their schemas and tags, and by name where these do not tell."""

import torch

LIFTED = "lifted"      # a tensor that was made where no mode could see it
VIEW = "view"          # the outputs are views of inputs: nothing is computed
EMPTY = "empty"        # new memory, with nothing in it
POINTWISE = "pointwise"
COPY = "copy"          # clone, _to_copy, copy_
READ = "read"          # gives the host a number
OTHER = "other"

_COPIES = {"aten::clone", "aten::_to_copy", "aten::copy_", "aten::lift_fresh_copy", "aten::copy"}
_EMPTY = {"aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided", "aten::resize_",
          "aten::empty_permuted"}
# Operators that give all elements one value: the value; None: it is an argument of the operator.
FULL = {"aten::zeros": 0, "aten::zeros_like": 0, "aten::new_zeros": 0, "aten::ones": 1, "aten::ones_like": 1, "aten::new_ones": 1,
        "aten::full": None, "aten::full_like": None, "aten::new_full": None, "aten::zero_": 0, "aten::fill_": None, "aten::zero": 0,
        "aten::fill": None}
_POINTWISE = {"aten::masked_fill", "aten::masked_fill_", "aten::where", "aten::lerp", "aten::clamp", "aten::clamp_"}
# Operators whose result has the value that all elements of their inputs have.
KEEPS_THE_VALUE = {"aten::cat", "aten::repeat", "aten::index_select", "aten::gather", "aten::index", "aten::amax", "aten::amin",
                   "aten::all", "aten::any", "aten::mean", "aten::flip", "aten::roll", "aten::embedding", "aten::max", "aten::min",
                   "aten::stack", "aten::contiguous", "aten::take"}
# Those of them whose result is whether that value is not 0.
TRUTHS = {"aten::all", "aten::any"}
# Operators that find elements: which of their outputs has the indices.
INDICES = {"aten::argmax": 0, "aten::argmin": 0, "aten::max": 1, "aten::min": 1, "aten::topk": 1, "aten::sort": 1,
           "aten::multinomial": 0, "aten::kthvalue": 1, "aten::median": 1, "aten::nanmedian": 1, "aten::mode": 1, "aten::cummax": 1,
           "aten::cummin": 1, "aten::argsort": 0}


# Operators that cuDNN runs. How much memory it takes meanwhile is not known.
CONVOLUTIONS = {"aten::convolution", "aten::convolution_backward"}
# Sets its second argument where a gradient is infinite or not a number.
FINDS_INFINITE = "aten::_amp_foreach_non_finite_check_and_unscale_"


class Facts:
    __slots__ = ("name", "kind", "mutated", "is_foreach", "is_random", "is_collective")

    def __init__(self, func):
        schema = func._schema
        self.name = schema.name
        self.mutated = [(index, argument.name) for index, argument in enumerate(schema.arguments)
                        if argument.alias_info is not None and argument.alias_info.is_write]
        views = [output for output in schema.returns if output.alias_info is not None and not output.alias_info.is_write]
        tags = set(func.tags)
        self.is_foreach = any("List" in str(argument.type) and argument.alias_info is not None for argument in schema.arguments)
        self.is_random = torch.Tag.nondeterministic_seeded in tags
        self.is_collective = self.name.partition("::")[0] in ("c10d", "_c10d_functional")
        if self.name == "aten::lift_fresh":
            self.kind = LIFTED
        elif self.name in _COPIES:
            self.kind = COPY
        elif self.name in ("aten::_local_scalar_dense", "aten::equal"):
            self.kind = READ
        elif self.name in _EMPTY:
            self.kind = EMPTY
        elif views and not self.mutated:
            self.kind = VIEW
        elif torch.Tag.pointwise in tags or self.name in _POINTWISE:
            self.kind = POINTWISE
        else:
            self.kind = OTHER


_facts = {}


def facts(func):
    known = _facts.get(func)
    if known is None:
        known = _facts[func] = Facts(func)
    return known
