"""A check that no key of an index is too long for the files of a metadata table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.exception import HoodieKeyException
from hoodie.io.hfile.data_block import MAX_ROW_BYTES

_SHOWN = 60


def check_key_sizes(keys: pa.Array, index: str, way_out: str) -> None:
    """Refuse keys that no file of a metadata table can hold.

    Args:
        keys: Keys of entries (string), without nulls.
        index: The index and the content of its keys, for the message.
        way_out: The advice for the user.

    Raises:
        HoodieKeyException: A key is too long.
    """
    if not len(keys):
        return
    lengths = pc.binary_length(keys)
    if pc.max(lengths).as_py() <= MAX_ROW_BYTES:
        return
    is_long = pc.greater(lengths, MAX_ROW_BYTES).to_numpy(zero_copy_only=False)
    first, count = int(np.argmax(is_long)), int(is_long.sum())
    raise HoodieKeyException(
        f"{index}, at most {MAX_ROW_BYTES} bytes of UTF-8 each, and {count} {'is' if count == 1 else 'are'} longer, "
        f"the first of {lengths[first].as_py()} bytes: {keys[first].as_py()[:_SHOWN]!r}... Nothing was committed. "
        f"{way_out}"
    )
