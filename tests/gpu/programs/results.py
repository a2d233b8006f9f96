"""How a program of this folder says what it computed: lines on stdout that are the same in every run
that computes the same. A line that begins with "# " is a measurement and is not compared."""

import hashlib


def result(name, array):
    """A NumPy array, by the digest of its bytes, and by numbers for when the last bits differ: none of the
    eight pieces can change by more than those without changing them."""
    digest = hashlib.sha256(array.tobytes()).hexdigest()[:16]
    flat = array.reshape(-1).astype("float64")
    step = -(-flat.size // 8)
    norms = " ".join(f"{(flat[at:at + step] ** 2).sum() ** 0.5:.9g}" for at in range(0, flat.size, step))
    print(f"{name}: {digest} {array.dtype} {array.shape} mean {flat.mean():.9g} norms {norms}", flush=True)


def measured(name, value, unit):
    print(f"# {name} {value:.6g} {unit}", flush=True)


def lacks(what):
    """Ends the program: this machine cannot run it."""
    print(f"lacking: {what}", flush=True)
    raise SystemExit(77)
