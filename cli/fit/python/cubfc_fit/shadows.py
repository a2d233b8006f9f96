"""What is known of the values in the device's memory.

No kernel computes anything on the software GPU, so what a program reads back is computed here, on the CPU, beside the program.
Each storage of the device's has a shadow. The shadow of a small storage has the same bytes, as far as they are known. That of a
large one is a value that all its elements have, if that is known. Views of a storage have no shadows of their own: they are
views of the shadow's bytes, too.
"""

import torch

# How sure a value is: bits. What is computed of several values has the bits of all of them.
TRUE = 0
DRAWN = 1  # random numbers, which are others on a GPU
GUESSED = 2

# The most elements of a storage whose bytes are known. Indices, lengths and masks decide how much memory is taken, floating-point
# numbers hardly ever do.
MOST_NUMBERS = 4096
MOST_INDICES = 1 << 18
MOST_BYTES_KEPT = 512 << 20  # by all shadows together; the oldest are forgotten first
MOST_BYTES_LOOKED_AT = 64 << 20  # of a copy from the host, to find out whether it has one value everywhere


class Bytes:
    """The bytes of a storage, in a storage of the host's."""
    __slots__ = ("storage", "certainty")

    def __init__(self, storage, certainty):
        self.storage, self.certainty = storage, certainty

    @property
    def nbytes(self):
        return self.storage.nbytes()


class Everywhere:
    """One value, a tensor of one element, that all elements of a storage of `nbytes` bytes have; 0: of a storage of any size.
    Never changed, as many storages may have the same one."""
    __slots__ = ("value", "certainty", "nbytes")

    def __init__(self, value, certainty, nbytes=0):
        self.value, self.certainty, self.nbytes = value.reshape(1), certainty, nbytes


_guesses = {}


def guess(dtype):
    """The guess for values of a type: 1, true, or for an index 0. With 1 a condition goes on where 0 would end it, and neither
    a logarithm nor a quotient becomes infinite."""
    if dtype not in _guesses:
        # An index of 1 may be out of range, 0 never is.
        number = 0 if is_index(dtype) and dtype != torch.bool else 1
        _guesses[dtype] = Everywhere(torch.full((1,), number, dtype=torch.float32).to(dtype), GUESSED)
    return _guesses[dtype]


def is_index(dtype):
    return not dtype.is_floating_point and not dtype.is_complex


def _most(dtype):
    return MOST_INDICES if is_index(dtype) else MOST_NUMBERS


def is_small(tensor):
    return tensor.numel() <= _most(tensor.dtype)


def _start(tensor):
    """The address at which the tensor's storage starts. The storage itself must not be asked for: Python's object of it would
    count as a further user, and autograd adds to a gradient in place only where it is the only one."""
    return tensor.data_ptr() - tensor.storage_offset() * tensor.element_size()


def _reach(tensor):
    """How many bytes the tensor's storage has up to the tensor's last element."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride()))
    return (tensor.storage_offset() + last + 1) * tensor.element_size() if tensor.numel() else 0


def is_followed(tensor):
    """Whether the tensor has a shadow: it is the device's, and strided."""
    return tensor.is_cuda and tensor.layout is torch.strided


def tensors_in(values):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)


class Shadows:
    """The shadows of all storages of which more is known than guess() says, by address. A storage that is freed keeps its
    shadow until a new one begins at the address: the operator that makes it sets its shadow. Only for the thread that holds the
    mode's lock."""

    def __init__(self):
        self._known = {}
        self._bytes = 0

    def of(self, tensor):
        shadow = self._known.get(_start(tensor))
        if shadow is None or (shadow.nbytes and shadow.nbytes < _reach(tensor)):
            return guess(tensor.dtype)
        return shadow

    def has(self, tensor):
        """Whether anything is known, or was guessed otherwise than by guess()."""
        return _start(tensor) in self._known

    def set(self, tensor, shadow):
        """Sets the shadow of the tensor's storage. The tensor must be all of its storage, or the shadow a guess."""
        key = _start(tensor)
        old = self._known.pop(key, None)
        if type(old) is Bytes:
            self._bytes -= old.nbytes
        if type(shadow) is Everywhere and shadow.certainty & GUESSED and not shadow.nbytes:
            return  # of() says the same where nothing is known
        self._known[key] = shadow
        if type(shadow) is Bytes:
            self._bytes += shadow.nbytes
            while self._bytes > MOST_BYTES_KEPT:
                self._forget(next(iter(self._known)))

    def _forget(self, key):
        old = self._known.pop(key)
        if type(old) is Bytes:
            self._bytes -= old.nbytes

    def begin(self, tensor):
        """Called for new memory, whose contents are not known and to which parts may be written."""
        nbytes = _reach(tensor) if is_small(tensor) else 0
        self.set(tensor, Everywhere(guess(tensor.dtype).value, GUESSED, nbytes))

    def covers(self, tensor):
        """Whether the tensor is all of its storage, as far as that is known."""
        shadow = self._known.get(_start(tensor))
        nbytes = tensor.numel() * tensor.element_size()
        if shadow is None or not shadow.nbytes:
            return tensor.storage_offset() == 0 and nbytes == _reach(tensor)
        return nbytes >= shadow.nbytes

    def certainty(self, tensor):
        return self.of(tensor).certainty

    def view(self, tensor):
        """The tensor's values on the host, in the tensor's size; not to be written to. None where the values are not known one
        by one and the tensor is too large for a copy of one value."""
        shadow = self.of(tensor)
        if type(shadow) is Bytes:
            return _laid_out(shadow.storage, tensor)
        if tensor.numel() > MOST_INDICES:
            return None
        return shadow.value.to(tensor.dtype).reshape(()).expand(tensor.size())

    def writable(self, tensor):
        """The same, to be written to, for a small storage. None where the storage is not known to be small."""
        shadow = self.of(tensor)
        if type(shadow) is not Bytes:
            nbytes = shadow.nbytes or (_reach(tensor) if self.covers(tensor) else 0)
            count = nbytes // tensor.element_size()
            if not nbytes or count > _most(tensor.dtype):
                return None
            storage = torch.UntypedStorage(nbytes, device="cpu")
            torch.empty(0, dtype=tensor.dtype).set_(storage, 0, (count,), (1,)).fill_(shadow.value.to(tensor.dtype)[0])
            shadow = Bytes(storage, shadow.certainty)
            self.set(tensor, shadow)
        return _laid_out(shadow.storage, tensor)

    def raise_certainty(self, tensor, certainty):
        shadow = self.of(tensor)
        if type(shadow) is Bytes:
            shadow.certainty |= certainty
        elif shadow.certainty | certainty != shadow.certainty:
            self.set(tensor, Everywhere(shadow.value, shadow.certainty | certainty, shadow.nbytes))

    def adopt(self, tensor, values, certainty):
        """Sets the values of a new tensor of the device's. `values`: a tensor of the host's, of the same size, that nothing
        else uses."""
        if not is_small(tensor):
            self.set(tensor, guess(tensor.dtype))
            return
        nbytes = _reach(tensor)
        if values.dtype != tensor.dtype or values.stride() != tensor.stride() or values.storage_offset() != tensor.storage_offset() \
                or values.untyped_storage().nbytes() != nbytes:
            storage = torch.UntypedStorage(nbytes, device="cpu")
            _laid_out(storage, tensor).copy_(values)
        else:
            storage = values.untyped_storage()
        self.set(tensor, Bytes(storage, certainty))

    def fill(self, tensor, value, certainty):
        """Sets all elements of the tensor's storage to `value`, a tensor of one element. The tensor must cover its storage."""
        self.set(tensor, Everywhere(value.reshape(-1)[:1].to(tensor.dtype, copy=True), certainty, _reach(tensor)))

    def write_part(self, tensor, values, certainty):
        """Sets the tensor's elements, which are a part of its storage. Where that is not possible, all of the storage becomes a
        guess."""
        target = self.writable(tensor)
        if target is not None:
            target.copy_(values.reshape(()) if values.numel() == 1 else values)
            self.raise_certainty(tensor, certainty)
            return
        shadow = self.of(tensor)
        if type(shadow) is Everywhere and values.numel() == 1 and shadow.value.dtype == tensor.dtype \
                and bool(shadow.value[0] == values.reshape(-1)[0]):
            self.raise_certainty(tensor, certainty)
        else:
            self.set(tensor, guess(tensor.dtype))

    def value(self, tensor):
        """The value that all elements of the tensor have, as a tensor of one element; None where that is not known."""
        if not tensor.is_cuda:
            return tensor.detach().reshape(1) if tensor.numel() == 1 and tensor.layout is torch.strided else None
        shadow = self.of(tensor)
        if type(shadow) is Everywhere:
            return shadow.value.to(tensor.dtype)
        return self.view(tensor).reshape(1) if tensor.numel() == 1 else None

    def copied_from_host(self, tensor, values):
        """Sets the values of a new tensor, or of one that covers its storage, to a copy of the host's `values`."""
        if is_small(tensor):
            self.adopt(tensor, values.detach().to(tensor.dtype, copy=True), TRUE)
            return
        if is_index(tensor.dtype) and values.numel() and values.numel() * values.element_size() <= MOST_BYTES_LOOKED_AT:
            first = values.reshape(-1)[:1]
            if bool((values == first).all()):
                self.fill(tensor, first, TRUE)
                return
        self.set(tensor, guess(tensor.dtype))


def _laid_out(storage, tensor):
    return torch.empty(0, dtype=tensor.dtype).set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())


# The program's shadows. Only for the thread that holds the mode's lock.
shadows = Shadows()
