"""The record keys of rows, made from the values of their key fields, for rows whose keys follow from their columns.

================================================  ==================================================================
the table                                         key of the values a, or a and 1
================================================  ==================================================================
one key field: SIMPLE, TIMESTAMP, NON_PARTITION   ``a``
one key field: COMPLEX, CUSTOM, no class stored   ``a`` or ``f:a``; releases of Hudi write either
several key fields                                ``f:a,g:1``
a key generator of the user's; no key fields      unknown
a value that is null or empty                     unknown
a field that is no string, int or long            unknown: Hudi's writers differ about dates, times and floats
================================================  ==================================================================
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.exception import HoodieNotSupportedException
from hoodie.keygen.key_generator import USER_KIND, key_generator_kind

_ONE_FORM = frozenset({"SIMPLE", "TIMESTAMP", "NON_PARTITION"})
_OF_ONE_FIELD = frozenset({"SIMPLE", "TIMESTAMP"})


def told_key_fields(table_config: HoodieTableConfig, schema: pa.Schema) -> tuple[str, ...]:
    """The key fields of a table, if the record keys follow from their values; () otherwise.

    Args:
        table_config: The table's properties.
        schema: The table's columns.
    """
    fields = tuple(table_config.record_key_fields)
    if not fields or not table_config.populate_meta_fields or not all(_has_one_text(schema, field) for field in fields):
        return ()
    try:
        kind = key_generator_kind(table_config)
    except HoodieNotSupportedException:
        return ()
    if kind == USER_KIND or (len(fields) > 1 and kind in _OF_ONE_FIELD):
        return ()
    return fields


def record_keys_of(table_config: HoodieTableConfig, values: Collection[Sequence[str]]) -> list[str] | None:
    """The record keys that rows with some values of the key fields can have.

    Args:
        table_config: The table's properties; see `told_key_fields`.
        values: The texts of the values of all key fields, in their order.

    Returns:
        The keys, sorted; None if a value is empty, which releases of Hudi store in different ways.
    """
    fields = tuple(table_config.record_key_fields)
    if not all(all(texts) for texts in values):
        return None
    composite = {",".join(f"{field}:{text}" for field, text in zip(fields, texts, strict=True)) for texts in values}
    if len(fields) > 1:
        return sorted(composite)
    plain = {texts[0] for texts in values}
    has_one_form = table_config.key_generator_class and key_generator_kind(table_config) in _ONE_FORM
    return sorted(plain if has_one_form else plain | composite)


def _has_one_text(schema: pa.Schema, field: str) -> bool:
    """Whether all writers make the same text of the values of a field: a string or an integer on the top level."""
    if field not in schema.names or "." in field:
        return False
    data_type = schema.field(field).type
    return pa.types.is_string(data_type) or data_type in (pa.int32(), pa.int64())
