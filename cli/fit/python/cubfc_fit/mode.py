"""The dispatch mode of PyTorch's under which the program runs: it sees each operator below autograd, and follows it on the host."""

import functools
import threading

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _python_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from . import operators, sizes
from .follow import follow
from .notes import notes
from .shadows import TRUE, guess, is_followed, is_small, shadows, tensors_in

_lock = threading.RLock()
_MOST_BYTES_KEPT_BY_DRIVER = 64 << 10  # of a copy, with STANDIN_DATA=none (tests/standin)


class Values(TorchDispatchMode):
    """In force in each thread from its beginning to its end. Changes no memory of the device's."""

    supports_higher_order_operators = True

    @classmethod
    def ignore_compile_internals(cls):
        return True  # torch.compile compiles under this mode

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # this mode is never compiled, and needs no wrapper that says so

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        # With fake tensors, which have no memory, PyTorch finds out sizes or compiles.
        if torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) or any(issubclass(kind, FakeTensor) for kind in types):
            return func(*args, **kwargs)
        # A subclass of Tensor handles its operators first. What these do to plain tensors is seen here.
        if not all(map(_is_plain, types)):
            return NotImplemented
        if not isinstance(func, torch._ops.OpOverload):
            return func(*args, **kwargs)
        facts = operators.facts(func)
        if facts.kind is operators.LIFTED:
            return _lifted(func(*args, **kwargs))
        if facts.kind is operators.VIEW:
            return func(*args, **kwargs)
        tensors = list(tensors_in(args)) + list(tensors_in(kwargs.values()))
        with _lock:
            expected = _followed(sizes.expected, None, func, facts, args, kwargs, tensors)
        try:
            out = func(*args, **kwargs)
        except RuntimeError as error:
            out = _without_library(error, func, facts, args, kwargs)
        finally:
            if expected is not None:
                sizes.end()
        with _lock:
            return _followed(follow, out, func, facts, args, kwargs, tensors, out)


@functools.lru_cache(maxsize=None)
def _is_plain(kind):
    """Whether tensors of this type have no dispatch of their own."""
    return kind.__torch_dispatch__ in (torch.Tensor.__torch_dispatch__, torch._C._disabled_torch_dispatch_impl)


def _lifted(tensor):
    """torch.tensor([...], device="cuda") copies where no mode sees it, and then calls an operator on the tensor that it has
    made. The driver has the bytes, where they are few."""
    if is_followed(tensor):
        with _lock:
            if is_small(tensor) and tensor.numel() * tensor.element_size() <= _MOST_BYTES_KEPT_BY_DRIVER:
                shadows.adopt(tensor, tensor.cpu(), TRUE)
            else:
                shadows.set(tensor, guess(tensor.dtype))
    return tensor


def _without_library(error, func, facts, args, kwargs):
    """Returns what an operator would have returned that failed because its library is not there: memory of the same size. What
    the library takes meanwhile is not known. Raises `error` where that is another one."""
    if facts.mutated or not any(name in str(error).lower() for name in ("cusolver", "cufft", "cusparse", "magma")):
        raise error

    def on(device):
        def moved(value):
            if isinstance(value, torch.Tensor):
                return torch.zeros(value.size(), dtype=value.dtype, device=device) if value.is_cuda else value
            return type(value)(map(moved, value)) if type(value) in (list, tuple) else value

        return func(*map(moved, args), **{name: moved(value) for name, value in kwargs.items()})

    device = next(tensor.device for tensor in tensors_in(args) if tensor.is_cuda)
    try:
        shapes = on("meta")
    except NotImplementedError:
        shapes = on("cpu")

    def as_memory(value):
        if isinstance(value, torch.Tensor):
            return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=device)
        return type(value)(map(as_memory, value)) if type(value) in (list, tuple) else value

    notes.add("workspace", facts.name.partition("::")[2])
    return as_memory(shapes)


def _followed(function, otherwise, func, *arguments):
    """Calls `function`. An exception in it is noted and does not reach the program; `otherwise` is returned then."""
    try:
        return function(func, *arguments)
    except Exception as error:  # pylint: disable=broad-except
        notes.add("not followed", str(func), detail=f"{type(error).__name__}: {error}")
        return otherwise


# One mode for all threads, which stays for ever: PyTorch up to 2.7 counts one reference too few of a mode that nothing else
# refers to.
_values = Values()


class InForce:
    """Puts the mode in force within a `with`, as the mode itself would. Does not touch PyTorch's record of whether a mode was
    entered, because of which torch.compile would not compile."""

    def __enter__(self):
        _python_dispatch._push_mode(_values)

    def __exit__(self, *_):
        _python_dispatch._pop_mode()


def forget(tensor):
    """Called for a new tensor that was made where no mode sees it: its values are not known."""
    with _lock:
        shadows.set(tensor, guess(tensor.dtype))
