"""Columns of JSON messages that nobody told the schema of."""

from __future__ import annotations

import pyarrow as pa

from hoodie.utilities.sources.helpers.json_schema_inference import infer_schema


def test_columns_come_in_the_order_in_which_they_appear_first() -> None:
    found = infer_schema([b'{"b":1}', None, b"", b"null", b'{"a":"x","b":2}'])
    assert found == pa.schema([("b", pa.int64()), ("a", pa.string())])


def test_types_of_several_messages_are_brought_together() -> None:
    found = infer_schema(
        [
            b'{"n":1,"m":null,"t":"2024-01-01","s":{"a":1},"l":[1],"x":1,"e":{},"o":null}',
            b'{"n":1.5,"m":true,"t":null,"s":{"b":[]},"l":[2.5,null],"x":"a","e":{}}',
        ]
    )
    assert found == pa.schema(
        [
            ("n", pa.float64()),
            ("m", pa.bool_()),
            ("t", pa.string()),
            ("s", pa.struct([("a", pa.int64()), ("b", pa.list_(pa.field("element", pa.string())))])),
            ("l", pa.list_(pa.field("element", pa.float64()))),
            ("x", pa.string()),
            ("e", pa.string()),
            ("o", pa.string()),
        ]
    )


def test_numbers_beyond_a_long_are_doubles() -> None:
    assert infer_schema([b'{"n":9223372036854775808}']) == pa.schema([("n", pa.float64())])


def test_messages_without_a_field_tell_nothing() -> None:
    assert infer_schema([b"{}", b"[1]"]) is None
