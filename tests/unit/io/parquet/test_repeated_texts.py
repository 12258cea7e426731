"""Columns of one value share their bytes; other dictionaries, nulls and kept columns stay as they were."""

from __future__ import annotations

import pyarrow as pa

from hoodie.io.parquet.repeated_texts import RepeatedTexts


def dictionary(*values: str | None) -> pa.DictionaryArray:
    return pa.array(values, pa.string()).dictionary_encode()


def test_batches_of_one_value_share_their_bytes() -> None:
    texts = RepeatedTexts()
    found = [texts.in_batch(pa.record_batch({"a": dictionary(*["héllo"] * count)})).column(0) for count in (3, 5, 2)]
    assert [column.to_pylist() for column in found] == [["héllo"] * count for count in (3, 5, 2)]
    assert found[0].type == pa.string()
    assert found[1].buffers()[2].address == found[2].buffers()[2].address
    other = texts.in_batch(pa.record_batch({"a": dictionary("x", "x")})).column(0)
    assert other.to_pylist() == ["x", "x"]


def test_other_columns_stay() -> None:
    batch = pa.record_batch(
        {"many": dictionary("a", "b"), "nulls": dictionary("a", None), "kept": dictionary("a", "a"), "n": [1, 2]}
    )
    assert RepeatedTexts(["kept"]).in_batch(batch) == batch
    assert RepeatedTexts().in_batch(batch).column("kept").to_pylist() == ["a", "a"]
    empty = pa.record_batch({"a": dictionary("a").slice(0, 0)})
    assert RepeatedTexts().in_batch(empty).column(0).to_pylist() == []
