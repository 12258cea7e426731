"""Columns of JSON messages that nobody told the schema of."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.utilities.sources.helpers import json_schema_inference as module
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


_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=True),
    st.sampled_from(["", "2026-07-05", "2026-07-05 10:00:00", "2026-07-05T10:00:00Z", "7", "ä", "true"]),
)  # fmt: skip
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=6,
)
_MESSAGES = st.lists(st.dictionaries(st.sampled_from("abcd"), _VALUES, max_size=4), min_size=1, max_size=10)
_BROKEN = st.sampled_from(
    [b"", b"?", b"null", b"[1]", b'{"a":1}{"a":"x"}', b'{"z":1}{"z":2}', b'{"a"', b"\xff", b'{"a":1,"a":"x"}']
)


@given(st.lists(_SCALARS | _VALUES, min_size=1, max_size=4), st.lists(_BROKEN, max_size=2), st.integers(0, 2))
def test_a_block_tells_the_same_as_its_messages(values: list[Any], broken: list[bytes], alike: int) -> None:
    """Of one field, many times the same value, so that the reader of blocks takes most of them."""
    messages = [
        json.dumps({"k": value, "n": number}).encode() for number, value in enumerate(values * 3 ** (alike + 1))
    ]
    messages[1:1] = broken
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_SMALL", 1)
        by_block = infer_schema(messages)
        patch.setattr(module, "_SMALL", 10**9)
        singly = infer_schema(messages)
    assert by_block == singly


@given(_MESSAGES)
def test_blocks_of_any_objects_tell_the_same_as_their_messages(objects: list[dict[str, Any]]) -> None:
    messages = [json.dumps(one).encode() for one in objects]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_SMALL", 1)
        by_block = infer_schema(messages)
        patch.setattr(module, "_SMALL", 10**9)
        assert by_block == infer_schema(messages)


def test_large_messages_are_looked_at_in_blocks_of_some_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def count(messages: list[bytes]) -> pa.DataType:
        sizes.append(len(messages))
        return pa.struct([("k", pa.int64())])

    monkeypatch.setattr(module, "_type_of_block", count)
    infer_schema(b'{"k":1}' + b" " * (1 << 20) for _ in range(9))
    assert sizes == [4, 4, 1]
