"""What the writer of an action knows of the keys that it adds, and the indexes of keys need."""

from __future__ import annotations

from enum import IntEnum

import attrs


class KeyScope(IntEnum):
    """Where a writer has looked for a key before it added it; a larger scope includes the smaller ones."""

    NOWHERE = 0
    PARTITION = 1
    """In the partition that it added the key to."""
    TABLE = 2


@attrs.frozen
class KeyLookUp:
    """What the writer of an action knows of the keys that it adds.

    Attributes:
        scope: Where it has looked for them.
        others: Writes that were completed since then: they may have added the same keys.
    """

    scope: KeyScope = KeyScope.NOWHERE
    others: tuple[str, ...] = ()
