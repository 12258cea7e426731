"""Knowledge of the keys that an action adds, which the indexes of keys need."""

from __future__ import annotations

from enum import IntEnum

import attrs


class KeyScope(IntEnum):
    """The scope in which a writer has looked for a key before it added it; a larger one includes the smaller ones."""

    NOWHERE = 0
    PARTITION = 1
    """In the partition that it added the key to."""
    TABLE = 2


@attrs.frozen
class KeyLookUp:
    """Knowledge of the keys that the writer of an action adds.

    Attributes:
        scope: The part of the table that was searched for them.
        others: Writes that were completed since then: they may have added the same keys.
    """

    scope: KeyScope = KeyScope.NOWHERE
    others: tuple[str, ...] = ()
