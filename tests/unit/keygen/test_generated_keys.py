"""Keys of tables that have no record key fields."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from hoodie.common.model.record_columns import RECORD_KEY, ROW_IDENTITY
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.exception import HoodieKeyException, HoodieNotSupportedException
from hoodie.keygen.generated_keys import AutoRecordGenWrapperKeyGenerator, GeneratedKeys, are_new
from hoodie.keygen.key_generator import create_key_generator


def generator(**properties: str) -> AutoRecordGenWrapperKeyGenerator:
    config = HoodieTableConfig({"hoodie.table.name": "t", "hoodie.table.version": "9", **properties})
    made = create_key_generator(config)
    assert isinstance(made, AutoRecordGenWrapperKeyGenerator)
    return made


def test_new_rows_are_marked_and_get_their_partition_path() -> None:
    made = generator(**{"hoodie.table.partition.fields": "p", "hoodie.table.keygenerator.type": "SIMPLE"})
    batch = pa.record_batch({"p": ["x", "y"], ROW_IDENTITY: ["7", "8"]})
    assert made.generates_keys
    assert are_new(made.record_keys(batch)).to_pylist() == [True, True]
    assert len(made.record_keys(batch).unique()) == 2
    assert made.partition_paths(batch).to_pylist() == ["x", "y"]
    assert list(made.bind(batch.schema).problems(batch)) == []
    assert made.has_plain_paths
    assert pickle.loads(pickle.dumps(made)) == made


def test_rows_without_a_partition_path_are_explained() -> None:
    made = generator(**{"hoodie.table.partition.fields": "p", "hoodie.table.keygenerator.type": "SIMPLE"})
    batch = pa.record_batch({"p": ["../x", "y"], ROW_IDENTITY: ["7", "8"]})
    assert made.partition_paths(batch).to_pylist() == [None, "y"]
    assert "'../x'" in made.explain_bad_rows(batch)
    with pytest.raises(HoodieKeyException, match="'p'"):
        made.bind(pa.schema([("a", pa.int64())]))


def test_keys_are_instant_task_and_row_and_go_on_with_the_next_batch() -> None:
    made, keys = generator(), GeneratedKeys("20261127130150558", 4)
    new = pa.record_batch({"a": [1, 2], RECORD_KEY: made.record_keys(pa.record_batch({ROW_IDENTITY: ["7", "7"]}))})
    assert keys.of_rows(new).column(RECORD_KEY).to_pylist() == ["20261127130150558_4_0", "20261127130150558_4_1"]
    assert keys.of_rows(new).column(RECORD_KEY).to_pylist() == ["20261127130150558_4_2", "20261127130150558_4_3"]


def test_rows_that_bring_a_stored_key_keep_it() -> None:
    (mark,) = generator().record_keys(pa.record_batch({ROW_IDENTITY: ["7"]})).to_pylist()
    batch = pa.record_batch({RECORD_KEY: ["20251127130150558_0_3", mark, None], "a": [1, 2, 3]})
    assert are_new(batch.column(0)).to_pylist() == [False, True, False]
    keyed = GeneratedKeys("20261127130150558", 4).of_rows(batch)
    assert keyed.column(RECORD_KEY).to_pylist() == ["20251127130150558_0_3", "20261127130150558_4_0", None]
    assert keyed.column("a").to_pylist() == [1, 2, 3]
    old = batch.slice(0, 1)
    assert GeneratedKeys("20261127130150558", 4).of_rows(old) is old


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"hoodie.populate.meta.fields": "false"}, "stores no generated keys"),
        ({"hoodie.table.keygenerator.class": "com.example.Keys"}, "com.example.Keys"),
    ],
)
def test_keys_that_nobody_could_use_are_refused(properties: dict[str, str], says: str) -> None:
    with pytest.raises(HoodieNotSupportedException, match=says):
        generator(**properties)
