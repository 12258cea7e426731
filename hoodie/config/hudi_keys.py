"""All of Hudi's property names, and what hoodie does with each.

The names are in ``hudi_keys.csv`` beside this module: those of Hudi 0.15 and of 1.x up to 1.2 and a little beyond, and
some that Hudi had up to 0.13 and templates still hold. Each name is in one class:

- *used*: a field of a group (`hoodie.config.write_config.GROUPS`) reads it.
- *harmless*: it changes nothing that hoodie stores or shows; it is ignored, and named in the log.
- *ignored*: it asks for something that hoodie does not do, and that changes no row and nothing that another engine
  reads (a sync by Spark's catalog). It never refuses a write: one warning names all such options, unless their
  values ask for nothing (``harmless_values``).
- *refused*: it changes rows or what other engines read, and hoodie does not support that yet. The values that ask for
  nothing (``harmless_values``, mostly ``false``) are accepted. Its note says what to give instead.

A key that hoodie learns to follow becomes *used*; which of the other classes a key belongs to follows from these lines.

Any other ``hoodie.*`` name is an error. A name that ends in ``*`` stands for all names with that prefix.
"""

from __future__ import annotations

import csv
import difflib
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache

import attrs


class KeyClass(StrEnum):
    """The treatment of a property by hoodie."""

    USED = "used"
    HARMLESS = "harmless"
    IGNORED = "ignored"
    REFUSED = "refused"


@attrs.frozen
class HudiKey:
    """One of Hudi's property names.

    Attributes:
        key: The name, or a prefix followed by ``*``.
        key_class: The treatment of it by hoodie.
        versions: The release lines of Hudi that have it: ``0.15``, ``1.x``; ``0.13`` for one that was removed later.
        harmless_values: Values (lower case) of an ignored or refused property that ask for nothing.
        note: The reason, and what to do.
    """

    key: str
    key_class: KeyClass
    versions: tuple[str, ...]
    harmless_values: frozenset[str]
    note: str

    def is_harmless_value(self, value: str) -> bool:
        """Whether a value of an ignored or refused property asks for nothing.

        Args:
            value: The given value.

        Returns:
            True if the property can be ignored; empty text always can.
        """
        return not value.strip() or value.strip().lower() in self.harmless_values


@cache
def load_hudi_keys() -> Mapping[str, HudiKey]:
    """Load the list of names, once.

    Returns:
        A mapping from name to what is known about it.
    """
    # Imported here: it takes as long as a small read, and few processes need the list.
    from importlib import resources

    with resources.files("hoodie.config").joinpath("hudi_keys.csv").open(encoding="utf-8") as file:
        return {
            row["key"]: HudiKey(
                key=row["key"],
                key_class=KeyClass(row["class"]),
                versions=tuple(row["versions"].split()),
                harmless_values=frozenset(row["harmless_values"].split("|")) if row["harmless_values"] else frozenset(),
                note=row["note"],
            )
            for row in csv.DictReader(file)
        }


def find_hudi_key(key: str) -> HudiKey | None:
    """Look up a property name.

    Args:
        key: The name.

    Returns:
        The entry of the name; if several prefixes match, that of the longest. None if Hudi has no such name.
    """
    keys = load_hudi_keys()
    if key in keys:
        return keys[key]
    fitting = [entry for entry in keys.values() if entry.key.endswith("*") and key.startswith(entry.key[:-1])]
    return max(fitting, key=lambda entry: len(entry.key), default=None)


def nearest_key(key: str, known: Iterable[str]) -> str:
    """Find the property name that a user may have meant.

    Args:
        key: The name that the user wrote.
        known: The names to choose from, at least one.

    Returns:
        The most similar name.
    """
    matcher = difflib.SequenceMatcher(b=key.lower())
    best, best_ratio = "", -1.0
    for name in sorted(known):
        matcher.set_seq1(name)
        # Check cheap upper bounds first, so that most names are never compared in full.
        if matcher.real_quick_ratio() >= best_ratio and matcher.quick_ratio() >= best_ratio:
            ratio = matcher.ratio()
            if ratio >= best_ratio:
                best, best_ratio = name, ratio
    return best
