"""The keys that a new version of a file lacks, if it has the other keys in their old order.

A delete leaves out rows and keeps the order of the others. So two walks side by side find them, and no table of all
keys is made.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.common.bloom.key_blocks import quick_hashes
from hoodie.common.util.arrow_buffers import booleans_of
from hoodie.io.parquet.key_search import find_keys

_MOST = 10_000
"""More keys are compared in another way: each costs a step of Python."""
_STEP = 1 << 8
"""The number of keys that are compared after a difference; it doubles as long as all are equal."""


def left_out(before: pa.Array, after: pa.Array) -> pa.Array | None:
    """The keys of an array that a second one lacks, each once.

    Args:
        before: Keys (string).
        after: Later keys (string).

    Returns:
        The keys; None if the second array is not the first one without some of its entries, if there are many, or if
        one of the keys is left in another place.
    """
    if not 0 <= len(before) - len(after) <= _MOST or before.null_count or after.null_count:
        return None
    is_kept = _kept(quick_hashes(before), quick_hashes(after))
    # Equal hashes tell nothing: the kept keys are compared as they are.
    if is_kept is None or not before.filter(booleans_of(is_kept)).equals(after):
        return None
    lost = before.filter(booleans_of(~is_kept)).unique()
    return None if len(lost) and len(find_keys(after, lost)[0]) else lost


def _kept(before: npt.NDArray[np.uint64], after: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_] | None:
    """True for the entries of an array that are those of a second one, in their order; None if there are no such."""
    is_kept = np.ones(len(before), dtype=np.bool_)
    skips, at, step = len(before) - len(after), 0, _STEP
    skipped = 0
    while at < len(after):
        until = min(at + step, len(after))
        differs = before[at + skipped : until + skipped] != after[at:until]
        first = int(differs.argmax())
        if not differs[first]:
            at, step = until, 2 * step
            continue
        at, step = at + first, _STEP
        if skipped == skips:
            return None
        is_kept[at + skipped] = False
        skipped += 1
    is_kept[at + skipped :] = False
    return is_kept
