"""The ring of hash ranges of a partition, as the bucket index with consistent hashing stores it.

Each node is the end of a range of hashes, and names the file group of that range::

    0 ---- node a ---- node b ---- node c ---- 2**31 - 1       a hash between a and b is in the file group of b

Hudi: org.apache.hudi.common.model.{HoodieConsistentHashingMetadata, ConsistentHashingNode}.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Any

import attrs

from hoodie.exception import HoodieCorruptedDataException

HASHING_METADATA_SUFFIX = ".hashing_meta"
FIRST_INSTANT = "00000000000000"
"""The instant time of a partition's first ring; all writers use it."""
LARGEST_HASH = 2**31 - 1


class NodeTag(StrEnum):
    """The change that resizing made to a node.

    Hudi: org.apache.hudi.common.model.ConsistentHashingNode.NodeTag.
    """

    NORMAL = "NORMAL"
    REPLACE = "REPLACE"
    DELETE = "DELETE"


@attrs.frozen
class ConsistentHashingNode:
    """The end of a range of hashes.

    Attributes:
        value: The largest hash of the range.
        file_id_prefix: The prefix of the file group's id; None for a deleted node.
        tag: The change that resizing made to the node.
    """

    value: int
    file_id_prefix: str | None
    tag: NodeTag = NodeTag.NORMAL


@attrs.frozen
class HoodieConsistentHashingMetadata:
    """The ring of one partition at one instant.

    Attributes:
        partition_path: The partition.
        instant_time: The instant that made the ring; `FIRST_INSTANT` for a partition's first ring.
        num_buckets: The number of nodes in the partition's first ring.
        nodes: The nodes of the ring, by ascending value.
        seq_no: How often the ring was resized.
        version: The version of the format.
    """

    partition_path: str
    instant_time: str
    num_buckets: int
    nodes: tuple[ConsistentHashingNode, ...]
    seq_no: int = 0
    version: int = 0

    @classmethod
    def initial(cls, partition_path: str, num_buckets: int) -> HoodieConsistentHashingMetadata:
        """A partition's first ring: ranges of equal length. Every writer makes the same ring.

        Args:
            partition_path: The partition.
            num_buckets: The number of ranges.
        """
        step = -(-LARGEST_HASH // num_buckets)
        ends = [0, *(min(step * number, LARGEST_HASH) for number in range(1, num_buckets + 1))]
        nodes = tuple(
            ConsistentHashingNode(end, _name_of_range(partition_path, start, end)) for start, end in pairwise(ends)
        )
        return cls(partition_path, FIRST_INSTANT, num_buckets, nodes)

    @property
    def file_name(self) -> str:
        """The name of the ring's file."""
        return f"{self.instant_time}{HASHING_METADATA_SUFFIX}"

    def to_json(self) -> bytes:
        """The content of the ring's file, byte for byte as Hudi writes it."""
        nodes = ", ".join(_node_to_json(node) for node in self.nodes)
        fields = {
            "version": self.version,
            "partitionPath": self.partition_path,
            "instant": self.instant_time,
            "numBuckets": self.num_buckets,
            "seqNo": self.seq_no,
        }
        lines = [f'  "{name}" : {json.dumps(value, ensure_ascii=False)},' for name, value in fields.items()]
        return "\n".join(["{", *lines, f'  "nodes" : [ {nodes} ]', "}"]).encode()

    @classmethod
    def from_json(cls, data: bytes, source: str = "hashing metadata") -> HoodieConsistentHashingMetadata:
        """Parse the content of a file; unknown fields are ignored.

        Args:
            data: The content.
            source: Where it comes from, for the error message.

        Raises:
            HoodieCorruptedDataException: It is not hashing metadata.
        """
        try:
            value: dict[str, Any] = json.loads(data)
            nodes = [
                ConsistentHashingNode(int(node["value"]), node.get("fileIdPrefix"), NodeTag(node.get("tag", "NORMAL")))
                for node in value["nodes"]
            ]
            return cls(
                partition_path=value["partitionPath"],
                instant_time=value["instant"],
                num_buckets=int(value["numBuckets"]),
                nodes=tuple(sorted(nodes, key=lambda node: node.value)),
                seq_no=int(value.get("seqNo", 0)),
                version=int(value.get("version", 0)),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise HoodieCorruptedDataException(
                f"{source} is not metadata of consistent hashing: {error!r}; restore the file"
            ) from error


def _name_of_range(partition_path: str, start: int, end: int) -> str:
    """A UUID computed from the range's bounds and the partition (Java's ``UUID.nameUUIDFromBytes``)."""
    content = start.to_bytes(8, "big") + end.to_bytes(8, "big") + partition_path.encode()
    return str(uuid.UUID(bytes=hashlib.md5(content, usedforsecurity=False).digest(), version=3))


def _node_to_json(node: ConsistentHashingNode) -> str:
    prefix = json.dumps(node.file_id_prefix)
    lines: Sequence[str] = (
        f'    "value" : {node.value},',
        f'    "fileIdPrefix" : {prefix},',
        f'    "tag" : "{node.tag.value}"',
    )
    return "\n".join(["{", *lines, "  }"])
