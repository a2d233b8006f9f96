"""Finds the values of what an operator has made, from the known values of its inputs. They are computed on the host where they
are few, computed for one element where each input has one value everywhere, else guessed."""

import torch

from . import operators
from .notes import notes
from .reads import copy, read
from .shadows import DRAWN, GUESSED, MOST_INDICES, TRUE, guess, is_followed, is_index, is_small, shadows, tensors_in

# Draws random numbers here, so that the program's own generators stay as they are.
_draws = torch.Generator(device="cpu")
_PLACE = 0.382  # where among the elements that are searched the first guess is found
_MOST_EXPERTS = 256  # a search among more elements counts as one in a vocabulary
_FEW = 16  # the most elements of tensors that are computed although they rest on a guess


def follow(func, facts, args, kwargs, tensors, out):
    """Sets the shadows of what the operator has made or changed. Returns what the operator returned, or the number that it
    should have returned."""
    if facts.is_collective:
        # The backend's threads write into these tensors at any time. The driver has the bytes that they copy.
        for tensor in (*tensors, *tensors_in([out])):
            if is_followed(tensor):
                shadows.set(tensor, guess(tensor.dtype))
        return out
    if facts.kind is operators.READ:
        return read(facts, tensors, out)
    mutated = [value for index, name in facts.mutated
               for value in tensors_in([args[index] if index < len(args) else kwargs.get(name)])]
    old = {id(tensor) for tensor in mutated}
    made = [value for value in tensors_in([out]) if id(value) not in old]
    for tensor in made:
        if tensor.layout is not torch.strided and tensor.numel() and not tensor._nnz():
            notes.size_unknown(facts.name)  # the operator itself read how many elements to take, and got 0
    changed = [value for value in mutated if is_followed(value)]
    new = [value for value in made if is_followed(value)]
    if facts.kind is operators.COPY:
        return copy(args, tensors, out, facts)
    if not changed and not new:
        return out
    if facts.kind is operators.EMPTY:
        for tensor in new + changed:
            shadows.begin(tensor)
        return out
    if facts.name in operators.CONVOLUTIONS:
        notes.add("convolutions", "cuDNN")
    certainty = TRUE
    for tensor in tensors:
        if is_followed(tensor):
            certainty |= shadows.certainty(tensor)
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
    """Whether the results, which rest on a guess, are guesses that need not be computed. A few numbers are computed all the
    same, so that a scale or a counter goes on as it would; so are indices. But an index that is found among guessed numbers is
    guessed by _guess_index()."""
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
            certainty = shadows.certainty(number) if number.is_cuda else TRUE
            value = shadows.view(number) if number.is_cuda else number
        else:
            value = torch.full((1,), number).to(tensor.dtype)
        if not changed or shadows.covers(tensor):
            shadows.fill(tensor, value, certainty)
        else:
            shadows.write_part(tensor, value, certainty)


def _on_host(value, writes):
    """An argument with tensors of the host in place of the device's. `writes`: the operator writes to it. Raises LookupError
    where its values are not known."""
    if isinstance(value, torch.Tensor):
        if not value.is_cuda:
            return value
        if value.layout is not torch.strided:
            raise LookupError
        view = shadows.writable(value) if writes else shadows.view(value)
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
    """Computes all results on the host, where all are small enough. Returns whether it has."""
    if any(is_followed(tensor) and not is_small(tensor) for tensor in (*changed, *tensors_in([out]))):
        return False
    # The mean or the product of large tensors is not known, though it is small itself.
    if any(is_followed(tensor) and tensor.numel() > MOST_INDICES for tensor in tensors):
        return False
    try:
        host_args, host_kwargs = _arguments_on_host(facts, args, kwargs)
        values = _call(func, facts, host_args, host_kwargs)
    except (LookupError, RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):
        return False  # the CPU has not the operator for this type, or refuses what a GPU does not
    for tensor in changed:
        shadows.raise_certainty(tensor, certainty)
    old = {id(tensor) for tensor in changed}
    for tensor, value in zip(tensors_in([out]), tensors_in([values])):
        if is_followed(tensor) and id(tensor) not in old and tensor.numel():  # an output that is not wanted is empty
            if tensor.size() != value.size():
                notes.add("shape", facts.name, detail=f"{list(tensor.size())} for {list(value.size())}")
                return False
            shadows.adopt(tensor, value, certainty)
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
    """Computes one element of the results, where each input has one value everywhere. Returns whether it has."""
    if facts.name in operators.KEEPS_THE_VALUE:
        inputs = [tensor for tensor in tensors if not (tensor.is_cuda and is_index(tensor.dtype) and len(tensors) > 1
                                                       and facts.name not in ("aten::cat", "aten::stack"))] or tensors[:1]
        values = [shadows.value(tensor) for tensor in inputs]
        if changed or any(value is None for value in values) or any(not bool(value == values[0]) for value in values):
            return False
        for tensor in new:
            if facts.name in operators.TRUTHS:
                shadows.fill(tensor, values[0] != 0, certainty)
            elif tensor.dtype != inputs[0].dtype:
                return False
            else:
                shadows.fill(tensor, values[0], certainty)
        return True
    if facts.name == "aten::sum" and len(tensors) == 1 and new and new[0].numel():
        value = shadows.value(tensors[0])
        if value is not None:
            shadows.fill(new[0], value.to(new[0].dtype) * (tensors[0].numel() // new[0].numel()), certainty)
        return value is not None
    if facts.kind is not operators.POINTWISE or facts.is_foreach:
        return False
    if any(not shadows.covers(tensor) for tensor in changed):
        return False

    def one(value):
        if isinstance(value, torch.Tensor):
            known = shadows.value(value)
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
    results = list(tensors_in([values]))
    for index, tensor in enumerate(changed + new):
        value = results[min(index, len(results) - 1)]
        shadows.fill(tensor, value, certainty)
    return True


def _guess(facts, tensors, changed, new, out):
    along = operators.INDICES.get(facts.name)
    outputs = list(tensors_in([out])) if not changed else []
    for tensor in changed + new:
        if facts.name == operators.FINDS_INFINITE and tensor.numel() == 1 and tensor is tensors[-2]:
            shadows.raise_certainty(tensor, GUESSED)  # no gradient is taken for infinite
        else:
            shadows.set(tensor, guess(tensor.dtype))
    if along is not None and along < len(outputs) and is_small(outputs[along]) and is_followed(outputs[along]):
        _guess_index(tensors[0], outputs[along])


def _guess_index(searched, found):
    """Guesses that each row finds other elements than the row before, so that all experts get some. In a vocabulary, no row
    finds the first or the last word, as the word that ends a text often has that number. The first rows find none in the middle
    either: where the scores of two beams stand behind one another, the middle is the first word of the second beam."""
    dimensions = [size for size, other in zip(searched.size(), found.size()) if size != other] if searched.dim() == found.dim() else []
    among = dimensions[0] if dimensions else (searched.size(-1) if searched.dim() else 1)
    end = 1 if among > _MOST_EXPERTS else 0
    values = end + (torch.arange(found.numel()) + int(among * _PLACE)) % max(among - 2 * end, 1)
    shadows.adopt(found, values.to(found.dtype).reshape(found.size()), GUESSED)
