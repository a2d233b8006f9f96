"""How a program of this folder says what it computed: lines on stdout that are the same in every run
that computes the same. A line that begins with "# " is a measurement and is not compared."""

import hashlib


def result(name, array):
    """A NumPy array, by the digest of its bytes, and by a few numbers for when the last bits differ."""
    digest = hashlib.sha256(array.tobytes()).hexdigest()[:16]
    flat = array.reshape(-1).astype("float64")
    print(f"{name}: {digest} {array.dtype} {array.shape} mean {flat.mean():.9g} max {abs(flat).max():.9g}", flush=True)


def measured(name, value, unit):
    print(f"# {name} {value:.6g} {unit}", flush=True)


def lacks(what):
    """Ends the program: this machine cannot run it."""
    print(f"lacking: {what}", flush=True)
    raise SystemExit(77)
