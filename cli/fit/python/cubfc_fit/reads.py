"""Copies, and reads by the host: there the program gets the values that are known."""

import torch

from .notes import notes
from .shadows import GUESSED, MOST_INDICES, TRUE, Everywhere, guess, is_followed, is_small, shadows
from .waits import waits

_FEW = 16  # the most elements of a copy to the host by which a `while` may decide


def copy(args, tensors, out, facts):
    source = args[1] if facts.name == "aten::copy_" else args[0]
    target = args[0] if facts.name == "aten::copy_" else out
    if not isinstance(source, torch.Tensor) or not isinstance(target, torch.Tensor):
        return out
    if not is_followed(target):
        if is_followed(source) and target.device.type == "cpu":
            _copy_to_host(source, target)
        return out
    if not source.is_cuda:
        if target.dtype != source.dtype and source.layout is not torch.strided:
            shadows.set(target, guess(target.dtype))
        elif target is out and facts.name != "aten::copy_" or (shadows.covers(target) and target.size() == source.size()):
            shadows.copied_from_host(target, source)
        else:
            shadows.write_part(target, source.detach(), TRUE)
        return out
    certainty = shadows.certainty(source)
    shadow = shadows.of(source)
    if shadows.covers(target) or facts.name != "aten::copy_":
        if type(shadow) is Everywhere:
            shadows.fill(target, shadow.value.to(source.dtype), certainty)
            return out
        values = shadows.view(source)
        if values is not None and is_small(target):
            shadows.adopt(target, values.to(target.dtype, copy=True).expand(target.size()), certainty)
            return out
        shadows.set(target, guess(target.dtype))
        return out
    values = shadows.value(source)
    if values is None and source.numel() <= MOST_INDICES:
        values = shadows.view(source)
    if values is None:
        shadows.set(target, guess(target.dtype))
    else:
        shadows.write_part(target, values, certainty)
    return out


def _copy_to_host(source, target):
    certainty = shadows.certainty(source)
    torch.cuda.current_stream(source.device).synchronize()  # the driver's own copy may still run
    if not shadows.has(source) and bool(torch.any(target.reshape(-1)[:MOST_INDICES] != 0)):
        return  # the driver has these bytes from a copy that no mode saw, such as one by a thread of Gloo's
    values = shadows.view(source)
    if values is not None and (shadows.has(source) or is_small(source)):
        target.copy_(values)
    if certainty & GUESSED:
        notes.read(source.numel(), "copied to the host")
        if values is not None and 0 < source.numel() <= _FEW:
            guessed = target.reshape(-1)[0].item()
            answer = waits.answer(guessed)
            if answer is not guessed:
                target.fill_(answer)


def read(facts, tensors, out):
    known = [tensor for tensor in tensors if is_followed(tensor)]
    if not known:
        return out
    if facts.name != "aten::equal" and not shadows.has(known[0]) and out:
        return out  # the driver has the number: see _copy_to_host()
    certainty = TRUE
    for tensor in known:
        certainty |= shadows.certainty(tensor)
    views = [shadows.view(tensor) if is_followed(tensor) else tensor for tensor in tensors]
    if any(view is None for view in views):
        number = True if facts.name == "aten::equal" else out
    else:
        number = torch.equal(*views) if facts.name == "aten::equal" else views[0].item()
    if certainty & GUESSED:
        notes.read(1, "compared" if facts.name == "aten::equal" else "read")
        number = waits.answer(number)
    return number
