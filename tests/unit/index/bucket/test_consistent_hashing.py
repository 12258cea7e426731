"""Rings of consistent hashing, beside those that real Hudi makes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest

from hoodie.common.model.consistent_hashing_metadata import (
    ConsistentHashingNode,
    HoodieConsistentHashingMetadata,
    NodeTag,
)
from hoodie.config.index_config import BucketKeyRule
from hoodie.exception import HoodieCorruptedDataException, HoodieIndexException, HoodieKeyException
from hoodie.index.bucket.consistent_bucket_identifier import ConsistentBucketIdentifier
from hoodie.index.bucket.consistent_bucket_index_utils import (
    hashing_metadata_folder,
    load_metadata,
    load_or_create_metadata,
    save_metadata,
)
from hoodie.storage.storage_factory import open_storage

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[3] / "data" / "consistent_hashing.json").read_text())


@pytest.mark.parametrize("partition", GOLDEN["partitions"], ids=lambda partition: partition["partition_path"] or "none")
def test_the_first_ring_of_a_partition_is_stored_byte_for_byte_as_by_real_hudi(partition: dict[str, Any]) -> None:
    made = HoodieConsistentHashingMetadata.initial(partition["partition_path"], partition["num_buckets"])
    assert made.to_json().decode() == partition["metadata"]
    assert HoodieConsistentHashingMetadata.from_json(partition["metadata"].encode()) == made


@pytest.mark.parametrize("partition", GOLDEN["partitions"], ids=lambda partition: partition["partition_path"] or "none")
def test_keys_go_to_the_nodes_that_real_hudi_finds(partition: dict[str, Any]) -> None:
    ring = HoodieConsistentHashingMetadata.from_json(partition["metadata"].encode())
    for (fields, key), value in zip(GOLDEN["keys"], partition["nodes"], strict=True):
        identifier = ConsistentBucketIdentifier(ring, fields.split(","), BucketKeyRule.HUDI_0_15)
        (number,) = identifier.node_numbers(pa.array([key]))
        assert identifier.nodes[number].value == value, key
        assert identifier.file_ids(pa.array([key])) == [f"{identifier.nodes[number].file_id_prefix}-0"]


def test_a_hash_behind_the_last_node_goes_to_the_first_and_deleted_nodes_take_nothing() -> None:
    ring = HoodieConsistentHashingMetadata.initial("p", 4)
    first, second, *_ = ring.nodes
    deleted = attrs.evolve(first, tag=NodeTag.DELETE, file_id_prefix=None)
    identifier = ConsistentBucketIdentifier(attrs.evolve(ring, nodes=(deleted, second)), ["id"])
    assert identifier.node_numbers(pa.array(["a", "b", "c", "d", "e", "f"])).tolist() == [0] * 6


def test_keys_that_releases_hash_differently_are_refused() -> None:
    ring = HoodieConsistentHashingMetadata.initial("p", 4)
    with pytest.raises(HoodieKeyException, match="'urn:1' goes to one file group in Hudi 0.15 and to another"):
        ConsistentBucketIdentifier(ring, ["id"]).node_numbers(pa.array(["a", "urn:1"]))


def test_rings_without_nodes_or_file_groups_are_refused() -> None:
    empty = HoodieConsistentHashingMetadata("p", "00000000000000", 0, ())
    with pytest.raises(HoodieIndexException, match="has no node"):
        ConsistentBucketIdentifier(empty, ["id"])
    nameless = attrs.evolve(empty, nodes=(ConsistentHashingNode(5, None),))
    with pytest.raises(HoodieIndexException, match="has no file group"):
        ConsistentBucketIdentifier(nameless, ["id"]).file_ids(pa.array(["a"]))


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"nodes": [{}]}', b'{"nodes": [{"value": 1, "tag": "NEW"}]}'])
def test_damaged_metadata_is_refused_by_its_path(content: bytes) -> None:
    with pytest.raises(HoodieCorruptedDataException, match=r"/t/x\.hashing_meta is not metadata of consistent hashing"):
        HoodieConsistentHashingMetadata.from_json(content, "/t/x.hashing_meta")


def test_the_ring_that_counts_is_the_newest_whose_instant_is_completed(tmp_path: Path) -> None:
    base_path, storage = str(tmp_path), open_storage(str(tmp_path))
    assert load_metadata(storage, base_path, "2024/01", set()) is None
    first = load_or_create_metadata(storage, base_path, "2024/01", 4, set())
    assert first == HoodieConsistentHashingMetadata.initial("2024/01", 4)
    assert load_or_create_metadata(storage, base_path, "2024/01", 9, set()) == first
    assert not save_metadata(storage, base_path, first)
    node = ConsistentHashingNode(2**31 - 1, "9c4a2a39-8d7f-4a0c-b0f7-2a1f5d0f3c11", NodeTag.REPLACE)
    resized = attrs.evolve(first, instant_time="20260101000000000", seq_no=1, nodes=(node,))
    assert save_metadata(storage, base_path, resized)

    def load(**given: Any) -> HoodieConsistentHashingMetadata | None:
        return load_metadata(storage, base_path, "2024/01", **{"completed_instants": set(), **given})

    assert load() == first
    assert load(completed_instants={resized.instant_time}) == resized
    in_use = {f"{node.file_id_prefix}-0"}
    assert load(file_ids=in_use) == resized
    assert load(file_ids=in_use, pending_instants={resized.instant_time}) == first
    folder = Path(hashing_metadata_folder(base_path, "2024/01"))
    (folder / f"{resized.instant_time}.commit").touch()
    assert load() == resized
