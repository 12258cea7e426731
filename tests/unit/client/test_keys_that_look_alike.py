"""Rows with different values in the fields of their key, and one key."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.common.model.key_parts import key_parts, may_be_ambiguous
from hoodie.common.model.record import HoodieKey
from hoodie.exception import HoodieException
from hoodie.table.action.commit import record_preparer
from tests.support.table_builder import local_client

Values = tuple[Any, ...]
PAIRS: list[tuple[Values, Values]] = [
    (("x,b:y", "z", "c"), ("x", "y,b:z", "c")),
    (("1", "2,c:3", "4"), ("1", "2", "3,c:4")),
    (("1,b:2,c:3", "4", "5"), ("1", "2", "3,b:4,c:5")),
    (("x", None, "z"), ("x", "__null__", "z")),
    (("x", "", "z"), ("x", "__empty__", "z")),
]
"""Values of the fields a, b and c that have the same key."""
AMBIGUOUS = "Such a key is ambiguous"


def rows(*values: Values, n: int = 0) -> pa.Table:
    columns = {
        name: pa.array(column, pa.string()) for name, column in zip("abc", zip(*values, strict=True), strict=True)
    }
    return pa.table({**columns, "ts": pa.array([1] * len(values)), "n": pa.array(range(n, n + len(values)))})


def make(path: Path, **arguments: Any) -> Path:
    fields = {"record_key_fields": ["a", "b", "c"], "ordering_fields": "ts"}
    HoodieTableMetaClient.init_table(str(path), table_name="t", **{**fields, **arguments})
    return path


def stored(path: Path) -> list[Values]:
    found = hoodie.read_table(str(path), columns=["a", "b", "c"]).to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
def test_such_rows_of_one_input_are_refused_in_any_order(tmp_path: Path, pair: tuple[Values, Values]) -> None:
    path = make(tmp_path / "t")
    with local_client(path, {}) as client:
        for given in (pair, pair[::-1]):
            with pytest.raises(HoodieException, match=AMBIGUOUS):
                client.upsert(rows(*given))
        batches = [batch for values in ((pair[0],), (("q", "r", "s"), pair[1])) for batch in rows(*values).to_batches()]
        with pytest.raises(HoodieException, match=AMBIGUOUS):
            client.upsert(batches)
    assert stored(path) == []


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
@pytest.mark.one_in(4)
def test_a_stored_row_of_other_values_is_neither_replaced_nor_deleted(
    tmp_path: Path, pair: tuple[Values, Values]
) -> None:
    for number, (first, second) in enumerate((pair, pair[::-1])):
        path = make(tmp_path / str(number))
        with local_client(path, {"hoodie.index.type": ["SIMPLE", "GLOBAL_BLOOM"][number]}) as client:
            client.upsert(rows(("o", "p", "q"), first))
            for write in (client.upsert, client.delete):
                with pytest.raises(HoodieException, match=f"same key as a stored one.* {AMBIGUOUS}"):
                    write(rows(("r", "s", "t"), second))
            client.upsert(rows(first, n=7))
            assert stored(path) == sorted([("o", "p", "q"), first], key=repr)
            client.delete(rows(first))
            assert stored(path) == [("o", "p", "q")]


def test_rows_whose_keys_only_look_odd_are_taken_and_updated(tmp_path: Path) -> None:
    values: list[Values] = [
        ("a,b", "c", "d"), ("a", "b,c", "d"), ("a:b", ",c", ":"), ("b:", ",a", ","), ("x", None, None), ("x", "", None),
        ("x,b:y", "z", "c"), ("__null__", "__empty__", "b"), ("x", "__null", "__null__ "),
    ]  # fmt: skip
    path = make(tmp_path / "t")
    with local_client(path, {}) as client:
        client.upsert(rows(*values))
        client.upsert(rows(*values, *values, n=50))
    assert stored(path) == sorted(values, key=repr)
    assert min(hoodie.read_table(str(path), columns=["n"])["n"].to_pylist()) >= 50


def test_without_combining_such_rows_of_one_key_are_refused_too(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    with local_client(path, {"hoodie.combine.before.upsert": "false"}) as client:
        client.upsert(rows(PAIRS[0][0]))
        with pytest.raises(HoodieException, match=AMBIGUOUS):
            client.upsert(rows(PAIRS[0][0], PAIRS[0][1]))


def test_a_merge_on_read_table_refuses_them_in_one_input_and_does_not_look_at_stored_rows(tmp_path: Path) -> None:
    path = make(tmp_path / "t", table_type="MERGE_ON_READ")
    with local_client(path, {"hoodie.compact.inline": "false"}) as client:
        with pytest.raises(HoodieException, match=AMBIGUOUS):
            client.upsert(rows(*PAIRS[0]))
        client.upsert(rows(PAIRS[0][0]))
        client.upsert(rows(PAIRS[0][1]))
    assert stored(path) == [PAIRS[0][1]]


def test_a_key_that_is_given_as_such_is_taken_at_its_word(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    with local_client(path, {}) as client:
        client.upsert(rows(PAIRS[0][0]))
        client.delete([HoodieKey("a:x,b:y,b:z,c:c", "")])
    assert stored(path) == []


def test_a_value_that_can_be_read_in_two_ways_is_warned_of_once(
    tmp_path: Path, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_preparer, "_warned_fields", set())
    path = make(tmp_path / "t")
    with local_client(path, {}) as client, caplog.at_level(logging.WARNING, "hoodie"):
        client.upsert(rows(("x", "y", "z"), ("x", None, "z")))
        assert "the key of other values" not in caplog.text
        client.upsert(rows(("x,b:y", "z", "z")))
        client.upsert(rows(("x,b:y", "z", "z")))
    assert caplog.text.count("can make the key of other values too, such as a = 'x,b:y', b = 'z', c = 'z'") == 1


def test_only_keys_of_several_fields_with_text_among_them_can_be_ambiguous() -> None:
    struct = pa.struct([("t", pa.string())])
    schema = pa.schema([("a", pa.int64()), ("b", pa.date32()), ("c", pa.string()), ("s", struct)])
    assert not may_be_ambiguous(schema, ["c"])
    assert not may_be_ambiguous(schema, ["a", "b"])
    assert may_be_ambiguous(schema, ["a", "c"])
    assert may_be_ambiguous(schema, ["a", "s.t"])


def test_parts_are_the_values_of_rows_that_can_be_read_in_two_ways_and_null_for_others() -> None:
    batch = rows(("x", "y", "z"), ("x,b:y", "z", None), ("x,c", ":", "a:"), ("__null__", "", "z")).to_batches()[0]
    assert key_parts(batch, ["a", "b", "c"]).to_pylist() == [
        None, "a = 'x,b:y', b = 'z', c = None", None, "a = '__null__', b = '', c = 'z'",
    ]  # fmt: skip
