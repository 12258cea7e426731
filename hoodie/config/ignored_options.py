"""Options that are not Hudi's but ask for something: names without their prefix, and options of Spark and Delta.

Nothing reads them. A user who gives one relies on it, so a warning says that it has no effect. If ignoring it could
replace rows that should stay, or write other rows than Hudi, it is refused.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

_PREFIXES = ("hoodie.", "hoodie.datasource.write.", "hoodie.datasource.")
_SIMILARITY = 0.92
_SHORTEST_NAME = 8
_OWNED_BY_OTHERS = ("spark.", "fs.", "hive.", "kafka.", "hadoop.")
_OF_SESSION = "spark.hoodie."
_OF_SPARK: Mapping[str, str] = {
    "mergeschema": "new columns are always added to the table, and columns of the table that the input lacks "
    "are refused unless hoodie.write.set.null.for.missing.columns = true; leave it out",
    "overwriteschema": "the columns of a table change only by adding columns and widening types; for other changes "
    "write with mode 'overwrite', which makes a new table then, or leave it out",
    "compression": "hoodie.parquet.compression.codec sets the codec of the table's files",
    "maxrecordsperfile": "hoodie.parquet.max.file.size sets the size of the table's files",
}
_REPLACING: Mapping[str, str] = {
    "replacewhere": "hoodie cannot replace the rows that match a filter. Set hoodie.datasource.write.operation = "
    "insert_overwrite, which replaces the partitions that the input goes to, or delete the rows first",
    "partitionoverwritemode": "to replace the partitions that the input goes to, set "
    "hoodie.datasource.write.operation = insert_overwrite",
}


def find_replacing_option(key: str, value: str) -> str | None:
    """Advice on an option that must not be ignored, because other rows would be written.

    Such an option selects the rows that an overwrite replaces, or is one of Hudi's behind the prefix ``spark.``, under
    which Hudi 1.2 takes it.

    Args:
        key: The name, in any case.
        value: The given value.

    Returns:
        None for any other option, and for a value that asks for nothing (Spark's default, ``static``).
    """
    if key.startswith(_OF_SESSION):
        return f"leave out the prefix 'spark.': {key.removeprefix('spark.')}"
    return None if value.strip().lower() in ("", "static") else _REPLACING.get(key.lower())


def find_ignored_option(key: str, known: Iterable[str]) -> str | None:
    """Why an option whose name does not begin with ``hoodie.`` has no effect, and what to do.

    Args:
        key: The name.
        known: The names of Hudi's and hoodie's options.

    Returns:
        None for a name that means nothing here.
    """
    if (advice := _OF_SPARK.get(key.lower())) is not None:
        return f"{key} is an option of other writers and has no effect here: {advice}"
    if key.startswith(_OWNED_BY_OTHERS):
        return None
    names = sorted(known)
    meant = next((prefix + key for prefix in _PREFIXES if prefix + key in names), None)
    if meant is None and "." in key and len(key) >= _SHORTEST_NAME:
        near = difflib.get_close_matches(f"{_PREFIXES[0]}{key}", names, n=1, cutoff=_SIMILARITY)
        meant = near[0] if near else None
    return None if meant is None else f"{key} has no effect, as its name lacks the prefix: use {meant}"
