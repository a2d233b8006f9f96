"""Allocates device memory from all kinds of Python functions, and writes down from which, as Python itself says it.

usage: stacks_program.py OUTPUT: a JSON list of stacks, each a list of [file, line, function], the innermost first.
"""
import asyncio
import ctypes
import json
import sys
import threading

cuda = ctypes.CDLL("libcuda.so.1")     # without the GIL while it is called
holding = ctypes.PyDLL("libcuda.so.1")  # with it
stacks = []


def note(frame):
    stack = []
    while frame:
        code = frame.f_code
        name = code.co_qualname if hasattr(code, "co_qualname") else code.co_name
        stack.append([code.co_filename, frame.f_lineno, name])
        frame = frame.f_back
    stacks.append(stack)


def check(result):
    assert result == 0, result


def allocate(library=cuda):
    address, size = ctypes.c_uint64(), ctypes.c_size_t(4096)
    note(sys._getframe()); check(library.cuMemAlloc_v2(ctypes.byref(address), size))


context = ctypes.c_void_p()
check(cuda.cuInit(0))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(cuda.cuCtxSetCurrent(context))


class Model:
    allocate()  # in a class's body

    def forward(self):
        allocate()
        return [self.helper(n) for n in range(2)]

    def helper(self, n):
        return (lambda: allocate())() or n

    @property
    def held(self):
        allocate(holding)

    def __call__(self):
        def inner():
            allocate()
        inner()


def generator():
    for _ in range(2):
        allocate()
        yield from nested()


def nested():
    allocate()
    yield


def deep(n):
    if n == 0:
        allocate()
    else:
        deep(n - 1)


async def coroutine():
    await asyncio.sleep(0)
    allocate()
    await other()


async def other():
    allocate()


def größe_файл():
    allocate()


def of_made_code():
    # Code that is freed: the next lies where it lay, and is another file's.
    for name in ("first.py", "naïve.py", "файл.py", "\U0001f600.py", "first.py"):
        for lines in (0, 300, 7):
            exec(compile("\n" * lines + "def made(f):\n    f()\nmade(allocate)", name, "exec"), {"allocate": allocate})


def long_function(lines):
    source = "def long():\n" + "    x = 1\n" * lines + "    allocate()\n" + "    x = 2\n" * lines
    scope = {"allocate": allocate}
    exec(compile(source, "long.py", "exec"), scope)
    scope["long"]()


def in_callbacks():
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))

    def order(a, b):
        allocate()
        return a[0] - b[0]
    numbers = (ctypes.c_int * 2)(2, 1)
    ctypes.CDLL(None).qsort(numbers, 2, ctypes.sizeof(ctypes.c_int), compare(order))
    sorted([2, 1], key=lambda n: allocate() or n)


def main():
    model = Model()
    model.forward()
    model.held
    model()
    list(generator())
    deep(5)
    deep(150)
    asyncio.run(coroutine())
    größe_файл()
    of_made_code()
    long_function(10)
    long_function(3000)
    in_callbacks()
    eval("allocate()")
    try:
        raise ValueError
    except ValueError:
        allocate()

    def in_thread():
        check(cuda.cuCtxSetCurrent(context))
        model()
    threads = [threading.Thread(target=in_thread) for _ in range(3)]
    for thread in threads:
        thread.start()
        thread.join()


if __name__ == "__main__":
    main()
    with open(sys.argv[1], "w", encoding="utf-8") as output:
        json.dump(stacks, output)
