"""The dispatch mode of PyTorch's under which the program runs: it sees each operator below autograd, and follows it on the host."""

import functools
import threading

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _python_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from . import operators, sizes
from .notes import notes
from .shadows import DRAWN, GUESSED, MOST_INDICES, TRUE, Everywhere, Shadows, guess, is_index, is_small
from .waits import waits

_lock = threading.RLock()
_shadows = Shadows()
# Of the numbers that are drawn here: the program's own generators stay as they are.
_draws = torch.Generator(device="cpu")
_MOST_BYTES_KEPT_BY_DRIVER = 64 << 10  # of a copy: STANDIN_DATA=none
_PLACE = 0.382  # of the first guess among those that are searched
_MOST_EXPERTS = 256  # among more, what is searched is words
_FEW = 16  # elements of what is computed though it rests on a guess


class Values(TorchDispatchMode):
    """In force in each thread from its beginning to its end. Changes no memory of the device's."""

    supports_higher_order_operators = True

    @classmethod
    def ignore_compile_internals(cls):
        return True  # torch.compile compiles under it

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # nothing of it is ever compiled: it needs no wrapper that says so

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        # PyTorch finds out sizes, or compiles, with tensors that have no memory.
        if torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) or any(issubclass(kind, FakeTensor) for kind in types):
            return func(*args, **kwargs)
        # A subclass comes first: its own operators on plain tensors are seen.
        if not all(map(_is_plain, types)):
            return NotImplemented
        if not isinstance(func, torch._ops.OpOverload):
            return func(*args, **kwargs)
        facts = operators.facts(func)
        if facts.kind is operators.LIFTED:
            return _lifted(func(*args, **kwargs))
        if facts.kind is operators.VIEW:
            return func(*args, **kwargs)
        tensors = list(_tensors_in(args)) + list(_tensors_in(kwargs.values()))
        with _lock:
            expected = _followed(sizes.expected, None, func, facts, args, kwargs, tensors, _shadows)
        try:
            out = func(*args, **kwargs)
        except RuntimeError as error:
            out = _without_library(error, func, facts, args, kwargs)
        finally:
            if expected is not None:
                sizes.end()
        with _lock:
            return _followed(_follow, out, func, facts, args, kwargs, tensors, out)


@functools.lru_cache(maxsize=None)
def _is_plain(kind):
    """Whether it has no operators of its own."""
    return kind.__torch_dispatch__ in (torch.Tensor.__torch_dispatch__, torch._C._disabled_torch_dispatch_impl)


def _lifted(tensor):
    """torch.tensor([...], device="cuda") copies where no mode sees it, and then tells of what it has made. The driver has the bytes,
    where they are few."""
    if _is_known(tensor):
        with _lock:
            if is_small(tensor) and tensor.numel() * tensor.element_size() <= _MOST_BYTES_KEPT_BY_DRIVER:
                _shadows.adopt(tensor, tensor.cpu(), TRUE)
            else:
                _shadows.set(tensor, guess(tensor.dtype))
    return tensor


def _without_library(error, func, facts, args, kwargs):
    """What an operator returns whose library is not there: memory of the size that it would have. What the library takes meanwhile
    is not known."""
    if facts.mutated or not any(name in str(error).lower() for name in ("cusolver", "cufft", "cusparse", "magma")):
        raise error

    def on(device):
        def moved(value):
            if isinstance(value, torch.Tensor):
                return torch.zeros(value.size(), dtype=value.dtype, device=device) if value.is_cuda else value
            return type(value)(map(moved, value)) if type(value) in (list, tuple) else value

        return func(*map(moved, args), **{name: moved(value) for name, value in kwargs.items()})

    device = next(tensor.device for tensor in _tensors_in(args) if tensor.is_cuda)
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
    """What goes wrong here must not reach the program."""
    try:
        return function(func, *arguments)
    except Exception as error:  # pylint: disable=broad-except
        notes.add("not followed", str(func), detail=f"{type(error).__name__}: {error}")
        return otherwise


def _tensors_in(values):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors_in(value)


def _is_known(tensor):
    return tensor.is_cuda and tensor.layout is torch.strided


def _follow(func, facts, args, kwargs, tensors, out):
    """Sets the shadows of what the operator has made or changed; what it returned, or the number that it should have."""
    if facts.is_collective:
        # Threads of the backend write into them, whenever: the driver has what they copy.
        for tensor in (*tensors, *_tensors_in([out])):
            if _is_known(tensor):
                _shadows.set(tensor, guess(tensor.dtype))
        return out
    if facts.kind is operators.READ:
        return _read(facts, tensors, out)
    mutated = [value for index, name in facts.mutated
               for value in _tensors_in([args[index] if index < len(args) else kwargs.get(name)])]
    old = {id(tensor) for tensor in mutated}
    made = [value for value in _tensors_in([out]) if id(value) not in old]
    changed = [value for value in mutated if _is_known(value)]
    new = [value for value in made if _is_known(value)]
    if facts.kind is operators.COPY:
        return _copy(args, tensors, out, facts)
    if not changed and not new:
        return out
    if facts.kind is operators.EMPTY:
        for tensor in new + changed:
            _shadows.begin(tensor)
        return out
    if facts.name in operators.CONVOLUTIONS:
        notes.add("convolutions", "cuDNN")
    certainty = TRUE
    for tensor in tensors:
        if _is_known(tensor):
            certainty |= _shadows.certainty(tensor)
    if facts.is_random:
        certainty |= DRAWN
    if facts.name in operators.FULL:
        _fill(facts, args, kwargs, new, changed)
    elif certainty & GUESSED and _stays_a_guess(facts, tensors, changed + new):
        _guess(facts, tensors, changed, new, out)
    elif not (_compute(func, facts, args, kwargs, tensors, changed, out, certainty)
              or _compute_everywhere(func, facts, args, kwargs, tensors, changed, new, certainty)):
        _guess(facts, tensors, changed, new, out)
    return out


def _stays_a_guess(facts, inputs, results):
    """A number that rests on a guess is one, too, and need not be computed; but a few are, so that a scale or a counter goes on
    as it would. An index among numbers that are guessed has no better guess than its own."""
    if facts.name in operators.INDICES and inputs and not is_index(inputs[0].dtype):
        return True
    if any(is_index(tensor.dtype) for tensor in results):
        return False
    return any(tensor.numel() > _FEW for tensor in (*inputs, *results))


def _fill(facts, args, kwargs, new, changed):
    number = operators.FULL[facts.name]
    if number is None:
        number = kwargs.get("fill_value", kwargs.get("value", args[1] if len(args) > 1 else None))
    for tensor in new + changed:
        certainty = TRUE
        if isinstance(number, torch.Tensor):
            certainty = _shadows.certainty(number) if number.is_cuda else TRUE
            value = _shadows.view(number) if number.is_cuda else number
        else:
            value = torch.full((1,), number).to(tensor.dtype)
        if not changed or _shadows.covers(tensor):
            _shadows.fill(tensor, value, certainty)
        else:
            _write_part(tensor, value, certainty)


def _write_part(tensor, values, certainty):
    """Of the storage of a tensor, the tensor's elements."""
    target = _shadows.writable(tensor)
    if target is not None:
        target.copy_(values.reshape(()) if values.numel() == 1 else values)
        _shadows.raise_certainty(tensor, certainty)
        return
    shadow = _shadows.of(tensor)
    if type(shadow) is Everywhere and values.numel() == 1 and shadow.value.dtype == tensor.dtype \
            and bool(shadow.value[0] == values.reshape(-1)[0]):
        _shadows.raise_certainty(tensor, certainty)
    else:
        _shadows.set(tensor, guess(tensor.dtype))


def _on_host(value, writes):
    """An argument as it is on the host; LookupError where its values are not known."""
    if isinstance(value, torch.Tensor):
        if not value.is_cuda:
            return value
        if value.layout is not torch.strided:
            raise LookupError
        view = _shadows.writable(value) if writes else _shadows.view(value)
        if view is None:
            raise LookupError
        return view
    if isinstance(value, (list, tuple)):
        return type(value)(_on_host(each, writes) for each in value) if type(value) in (list, tuple) else value
    if isinstance(value, torch.device):
        return torch.device("cpu")
    if isinstance(value, torch.Generator):
        return None
    return value


def _arguments_on_host(facts, args, kwargs):
    writes = {index for index, _ in facts.mutated}
    names = {name for _, name in facts.mutated}
    return ([_on_host(value, index in writes) for index, value in enumerate(args)],
            {name: _on_host(value, name in names) for name, value in kwargs.items() if name != "pin_memory"})


def _compute(func, facts, args, kwargs, tensors, changed, out, certainty):
    """All on the host, where all is small enough for that."""
    if any(_is_known(tensor) and not is_small(tensor) for tensor in (*changed, *_tensors_in([out]))):
        return False
    # What a mean or a product of large ones is, is not known.
    if any(_is_known(tensor) and tensor.numel() > MOST_INDICES for tensor in tensors):
        return False
    try:
        host_args, host_kwargs = _arguments_on_host(facts, args, kwargs)
        values = _call(func, facts, host_args, host_kwargs)
    except (LookupError, RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):
        return False  # the CPU has not the operator for this type, or refuses what a GPU does not
    for tensor in changed:
        _shadows.raise_certainty(tensor, certainty)
    old = {id(tensor) for tensor in changed}
    for tensor, value in zip(_tensors_in([out]), _tensors_in([values])):
        if _is_known(tensor) and id(tensor) not in old:
            if tensor.size() != value.size():
                notes.add("shape", facts.name, detail=f"{list(tensor.size())} for {list(value.size())}")
                return False
            _shadows.adopt(tensor, value, certainty)
    return True


def _call(func, facts, args, kwargs):
    if not facts.is_random:
        return func(*args, **kwargs)
    programs = torch.get_rng_state()
    try:
        torch.set_rng_state(_draws.get_state())
        values = func(*args, **kwargs)
        _draws.set_state(torch.get_rng_state())
        return values
    finally:
        torch.set_rng_state(programs)


def _compute_everywhere(func, facts, args, kwargs, tensors, changed, new, certainty):
    """On one element, where all inputs have one value everywhere."""
    if facts.name in operators.KEEPS_THE_VALUE:
        inputs = [tensor for tensor in tensors if not (tensor.is_cuda and is_index(tensor.dtype) and len(tensors) > 1
                                                       and facts.name not in ("aten::cat", "aten::stack"))] or tensors[:1]
        values = [_value(tensor) for tensor in inputs]
        if changed or any(value is None for value in values) or any(not bool(value == values[0]) for value in values):
            return False
        for tensor in new:
            if facts.name in operators.TRUTHS:
                _shadows.fill(tensor, values[0] != 0, certainty)
            elif tensor.dtype != inputs[0].dtype:
                return False
            else:
                _shadows.fill(tensor, values[0], certainty)
        return True
    if facts.name == "aten::sum" and len(tensors) == 1 and new and new[0].numel():
        value = _value(tensors[0])
        if value is not None:
            _shadows.fill(new[0], value.to(new[0].dtype) * (tensors[0].numel() // new[0].numel()), certainty)
        return value is not None
    if facts.kind is not operators.POINTWISE or facts.is_foreach:
        return False
    if any(not _shadows.covers(tensor) for tensor in changed):
        return False

    def one(value):
        if isinstance(value, torch.Tensor):
            known = _value(value)
            if known is None:
                raise LookupError
            return known.clone()
        if isinstance(value, (list, tuple)):
            return [one(each) for each in value]
        return torch.device("cpu") if isinstance(value, torch.device) else value

    try:
        host_args, host_kwargs = [one(value) for value in args], {name: one(value) for name, value in kwargs.items()}
        values = func(*host_args, **host_kwargs)
    except (LookupError, RuntimeError, NotImplementedError, TypeError, ValueError):
        return False
    results = list(_tensors_in([values]))
    for index, tensor in enumerate(changed + new):
        value = results[min(index, len(results) - 1)]
        _shadows.fill(tensor, value, certainty)
    return True


def _value(tensor):
    """The one that all elements of it have, as a tensor of one, or None."""
    if not tensor.is_cuda:
        return tensor.detach().reshape(1) if tensor.numel() == 1 and tensor.layout is torch.strided else None
    shadow = _shadows.of(tensor)
    if type(shadow) is Everywhere:
        return shadow.value.to(tensor.dtype)
    return _shadows.view(tensor).reshape(1) if tensor.numel() == 1 else None


def _guess(facts, tensors, changed, new, out):
    along = operators.INDICES.get(facts.name)
    outputs = list(_tensors_in([out])) if not changed else []
    for tensor in changed + new:
        if facts.name == operators.FINDS_INFINITE and tensor.numel() == 1 and tensor is tensors[-2]:
            _shadows.raise_certainty(tensor, GUESSED)  # no gradient is
        else:
            _shadows.set(tensor, guess(tensor.dtype))
    if along is not None and along < len(outputs) and is_small(outputs[along]) and _is_known(outputs[along]):
        _guess_index(tensors[0], outputs[along])


def _guess_index(searched, found):
    """Each row finds others than the row before, so that all experts get some. Of a vocabulary none finds the first or the last word,
    where what ends a text has its number; nor do the first rows find those in the middle, which would be the first ones again where
    the numbers of two beams stand behind one another."""
    dimensions = [size for size, other in zip(searched.size(), found.size()) if size != other] if searched.dim() == found.dim() else []
    among = dimensions[0] if dimensions else (searched.size(-1) if searched.dim() else 1)
    end = 1 if among > _MOST_EXPERTS else 0
    values = end + (torch.arange(found.numel()) + int(among * _PLACE)) % max(among - 2 * end, 1)
    _shadows.adopt(found, values.to(found.dtype).reshape(found.size()), GUESSED)


def _copy(args, tensors, out, facts):
    source = args[1] if facts.name == "aten::copy_" else args[0]
    target = args[0] if facts.name == "aten::copy_" else out
    if not isinstance(source, torch.Tensor) or not isinstance(target, torch.Tensor):
        return out
    if not _is_known(target):
        if _is_known(source) and target.device.type == "cpu":
            _copy_to_host(source, target)
        return out
    if not source.is_cuda:
        if target.dtype != source.dtype and source.layout is not torch.strided:
            _shadows.set(target, guess(target.dtype))
        elif target is out and facts.name != "aten::copy_" or (_shadows.covers(target) and target.size() == source.size()):
            _shadows.copied_from_host(target, source)
        else:
            _write_part(target, source.detach(), TRUE)
        return out
    certainty = _shadows.certainty(source)
    shadow = _shadows.of(source)
    if _shadows.covers(target) or facts.name != "aten::copy_":
        if type(shadow) is Everywhere:
            _shadows.fill(target, shadow.value.to(source.dtype), certainty)
            return out
        values = _shadows.view(source)
        if values is not None and is_small(target):
            _shadows.adopt(target, values.to(target.dtype, copy=True).expand(target.size()), certainty)
            return out
        _shadows.set(target, guess(target.dtype))
        return out
    values = _value(source)
    if values is None and source.numel() <= MOST_INDICES:
        values = _shadows.view(source)
    if values is None:
        _shadows.set(target, guess(target.dtype))
    else:
        _write_part(target, values, certainty)
    return out


def _copy_to_host(source, target):
    certainty = _shadows.certainty(source)
    torch.cuda.current_stream(source.device).synchronize()  # it may be on its way
    if not _shadows.has(source) and bool(torch.any(target.reshape(-1)[:MOST_INDICES] != 0)):
        return  # a copy that nobody saw, as a thread of gloo's makes, wrote it: the driver has these bytes
    values = _shadows.view(source)
    if values is not None and (_shadows.has(source) or is_small(source)):
        target.copy_(values)
    if certainty & GUESSED:
        notes.read(source.numel(), "copied to the host")
        if values is not None and 0 < source.numel() <= _FEW:
            guessed = target.reshape(-1)[0].item()
            answer = waits.answer(guessed)
            if answer is not guessed:
                target.fill_(answer)


def _read(facts, tensors, out):
    known = [tensor for tensor in tensors if _is_known(tensor)]
    if not known:
        return out
    if facts.name != "aten::equal" and not _shadows.has(known[0]) and out:
        return out  # likewise
    certainty = TRUE
    for tensor in known:
        certainty |= _shadows.certainty(tensor)
    views = [_shadows.view(tensor) if _is_known(tensor) else tensor for tensor in tensors]
    if any(view is None for view in views):
        number = True if facts.name == "aten::equal" else out
    else:
        number = torch.equal(*views) if facts.name == "aten::equal" else views[0].item()
    if certainty & GUESSED:
        notes.read(1, "compared" if facts.name == "aten::equal" else "read")
        number = waits.answer(number)
    return number


# One for all threads. PyTorch up to 2.7 counts one reference too few of a mode that nobody else has.
_values = Values()


class InForce:
    """For a `with`, as the mode itself would be; but PyTorch's books of whether a mode was entered, which would keep torch.compile
    from compiling, are left alone."""

    def __enter__(self):
        _python_dispatch._push_mode(_values)

    def __exit__(self, *_):
        _python_dispatch._pop_mode()


def forget(tensor):
    """A tensor is new, and nobody has seen what made it."""
    with _lock:
        _shadows.set(tensor, guess(tensor.dtype))
