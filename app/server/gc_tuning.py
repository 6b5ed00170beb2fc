"""The garbage collector of a worker: what lives as long as the process is not looked through again."""

import gc

# CPython's own 700 and 10 begin a collection every few calls. Cycles are rare here and small; a young
# generation of 20,000 objects is gone through in about a millisecond.
_YOUNG, _MIDDLE, _OLD = 20_000, 20, 50


def settle() -> None:
    """Call once when everything is built: it leaves the collector's view, and collections become rarer."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
