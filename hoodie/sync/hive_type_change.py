"""Changes of Hive types: which of them the partitions of a catalog must follow."""

from __future__ import annotations

import re

_STRUCT, _ARRAY, _MAP = "struct", "array", "map"
_NESTED = re.compile(rf"({_STRUCT}|{_ARRAY}|{_MAP})<(.*)>")


def needs_cascade(old: str, new: str) -> bool:
    """Whether columns of partitions must follow a column of the table whose type changes.

    Athena and Redshift Spectrum refuse to read a partition whose column has another type than the table's. They accept
    a struct that got fields at its end::

        int                bigint                     True
        struct<a:int>      struct<a:int,b:string>     False
        struct<a:int>      struct<b:string,a:int>     True
        array<int>         array<bigint>              True

    Columns that are new or gone need nothing; the caller compares those of the same name.

    Args:
        old: The Hive type of the partition or the table.
        new: The new Hive type.

    Source: https://github.com/apache/hudi/pull/11670 and the comments of Hudi's AWSGlueCatalogSyncClient.
    """
    old, new = old.lower().replace(" ", ""), new.lower().replace(" ", "")
    if old == new:
        return False
    before, after = _NESTED.fullmatch(old), _NESTED.fullmatch(new)
    if before is None or after is None or before[1] != after[1]:
        return True
    old_parts, new_parts = _parts(before[2]), _parts(after[2])
    if len(old_parts) > len(new_parts) or (before[1] != _STRUCT and len(old_parts) != len(new_parts)):
        return True
    if before[1] != _STRUCT:
        return any(needs_cascade(a, b) for a, b in zip(old_parts, new_parts, strict=True))
    for old_part, new_part in zip(old_parts, new_parts, strict=False):
        old_name, _, old_type = old_part.partition(":")
        new_name, _, new_type = new_part.partition(":")
        if old_name != new_name or needs_cascade(old_type, new_type):
            return True
    return False


def _parts(inner: str) -> list[str]:
    """The parts that commas outside of all brackets separate."""
    parts, depth = [""], 0
    for character in inner:
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts
