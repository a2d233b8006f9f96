"""A program with a cache such as PyTorch's (fake_c10_cuda.cpp), which is loaded as Python loads PyTorch's: for itself alone.

usage: tensors_program.py LIBC10_CUDA WHAT...    what it does, in this order: see the functions with these names
"""
import ctypes
import os
import sys
import threading

MIB = 1 << 20
CUDA, CPU = 1, 0
cuda = ctypes.CDLL("libcuda.so.1")


class Told(ctypes.Structure):
    _fields_ = [("calls", ctypes.c_uint64), ("address", ctypes.c_uint64), ("bytes", ctypes.c_int64), ("allocated", ctypes.c_size_t),
                ("reserved", ctypes.c_size_t), ("type", ctypes.c_int8), ("index", ctypes.c_int8)]


class Cache:
    def __init__(self):
        self.library = ctypes.CDLL(sys.argv[1])
        self.library.take_segment.restype = ctypes.c_uint64
        told = ctypes.CDLL(os.path.join(os.path.dirname(sys.argv[1]), "libc10.so")).told_to_profiler
        told.restype = ctypes.POINTER(Told)
        self.told = told().contents
        self.segment = self.library.take_segment(cuda.cuMemAlloc_v2, ctypes.c_size_t(2 * MIB))
        assert self.segment

    def tell(self, offset, size, device=(CUDA, 0), is_old=False):
        before = self.told.calls
        self.library.tell_of_tensor(ctypes.c_uint64(self.segment + offset), ctypes.c_int64(size), *device, is_old)
        told = self.told
        assert told.calls == before + 1, "PyTorch's own function was not called"
        assert (told.address, told.bytes, told.allocated, told.reserved, told.type, told.index) == (
            self.segment + offset, size, 11, 22, *device)


def check(result):
    assert result == 0, result


def keep():
    """Two tensors, of which one is kept."""
    cache.tell(0, 1000)
    cache.tell(4096, 3000)
    cache.tell(0, -1000)


def old():
    """As PyTorch before 2.1 tells of them."""
    cache.tell(0, 1000, is_old=True)
    cache.tell(0, -1000, is_old=True)


def of_the_host():
    """Memory that is not the device's."""
    cache.tell(8192, 777, device=(CPU, -1))
    cache.tell(8192, -777, device=(CPU, -1))


def nowhere():
    """A tensor in no block; one that comes back unknown; one at no address."""
    cache.tell(1 << 40, 512)
    cache.tell((1 << 40) + 4096, -512)
    cache.tell(-cache.segment, 0)


def fork():
    """The child goes on telling; its parent too."""
    child = os.fork()
    if child == 0:
        cache.tell(0, 1 << 16)
        os._exit(0)
    check(os.waitpid(child, 0)[1])
    keep()


def again():
    """The libraries are unloaded, and lie elsewhere when they are loaded again."""
    global cache
    handles = [ctypes.CDLL(path)._handle for path in (sys.argv[1], os.path.join(os.path.dirname(sys.argv[1]), "libc10.so"))]
    del cache
    for handle in handles:
        while "libc10" in open("/proc/self/maps", encoding="utf-8").read() and ctypes.CDLL(None).dlclose(ctypes.c_void_p(handle)) == 0:
            pass
    held = ctypes.CDLL(None).mmap
    assert "libc10" not in open("/proc/self/maps", encoding="utf-8").read()
    held.restype, held.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    for _ in range(64):  # what they left is taken
        held(None, 16384, 1, 0x22, -1, 0)
    cache = Cache()
    keep()


def threads():
    """Many at once, each in a part of the segment of its own."""
    def work(number):
        for _ in range(200):
            cache.library.tell_of_tensor(ctypes.c_uint64(cache.segment + 65536 * number), ctypes.c_int64(512), CUDA, 0, False)
            cache.library.tell_of_tensor(ctypes.c_uint64(cache.segment + 65536 * number), ctypes.c_int64(-512), CUDA, 0, False)
    some = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for one in some:
        one.start()
    for one in some:
        one.join()


context = ctypes.c_void_p()
check(cuda.cuInit(0))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(cuda.cuCtxSetCurrent(context))
cache = Cache()
for what in sys.argv[2:]:
    globals()[what]()
