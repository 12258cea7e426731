"""Find the node of a record key in a ring of consistent hashing.

Hudi: org.apache.hudi.index.bucket.ConsistentBucketIdentifier.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import xxhash

from hoodie.common.fs.file_names import make_file_id
from hoodie.common.model.consistent_hashing_metadata import HoodieConsistentHashingMetadata, NodeTag
from hoodie.config.index_config import BucketKeyRule
from hoodie.exception import HoodieIndexException, HoodieKeyException
from hoodie.index.bucket.bucket_identifier import HASH_MASK, values_of_hudi_0, values_of_hudi_1


class ConsistentBucketIdentifier:
    """Finds the nodes of the record keys of one partition.

    Args:
        metadata: The partition's ring.
        hash_fields: The record key fields that are hashed.
        rule: What to do with keys for which releases of Hudi compute different hashes.

    Raises:
        HoodieIndexException: The ring has no node.

    Hudi: org.apache.hudi.index.bucket.ConsistentBucketIdentifier. Differs: finds the nodes of many keys at once.
    """

    def __init__(
        self,
        metadata: HoodieConsistentHashingMetadata,
        hash_fields: Sequence[str],
        rule: BucketKeyRule = BucketKeyRule.REFUSE,
    ) -> None:
        self.metadata = metadata
        self.nodes = tuple(node for node in metadata.nodes if node.tag is not NodeTag.DELETE)
        if not self.nodes:
            raise HoodieIndexException(
                f"the hashing metadata of partition '{metadata.partition_path}' at {metadata.instant_time} has no node"
            )
        self._hash_fields = tuple(hash_fields)
        self._rule = rule
        self._ends = np.array([node.value for node in self.nodes], dtype=np.int64)

    def node_numbers(self, record_keys: pa.Array) -> np.ndarray:
        """For each key the index of its node in ``nodes``: the first node whose end is at or after the key's hash.

        Args:
            record_keys: Strings without nulls.

        Raises:
            HoodieKeyException: Releases of Hudi compute different hashes for a key, and the rule refuses such keys.
        """
        digest = xxhash.xxh32_intdigest
        hashes = np.fromiter(
            (digest(self._hashed_text(key).encode()) for key in record_keys.to_pylist()),
            dtype=np.int64,
            count=len(record_keys),
        )
        places = np.searchsorted(self._ends, hashes & HASH_MASK, side="left")
        # After the last node the ring begins again.
        return places % len(self.nodes)

    def file_ids(self, record_keys: pa.Array) -> list[str]:
        """The file id of each key's file group; see `node_numbers`.

        Raises:
            HoodieIndexException: A node has no file group.
        """
        ids = []
        for number in self.node_numbers(record_keys):
            prefix = self.nodes[number].file_id_prefix
            if not prefix:
                raise HoodieIndexException(
                    f"node {self.nodes[number].value} of partition '{self.metadata.partition_path}' has no file group"
                )
            ids.append(make_file_id(prefix, 0))
        return ids

    def _hashed_text(self, record_key: str) -> str:
        if ":" not in record_key:
            return record_key
        old, new = (_join(values(record_key, self._hash_fields)) for values in (values_of_hudi_0, values_of_hudi_1))
        if old == new or self._rule is BucketKeyRule.HUDI_0_15:
            return old or ""
        if self._rule is BucketKeyRule.REFUSE or new is None:
            raise HoodieKeyException(
                f"the record key '{record_key}' goes to one file group in Hudi 0.15 and to another in Hudi 1.x: set "
                "hoodie.bucket.index.key.rule=0.15 or 1.x, the release that writes this table"
            )
        return new


def _join(values: Sequence[str | None] | None) -> str | None:
    """Join strings as Java does: a null becomes the text ``null``."""
    return None if values is None else "".join("null" if value is None else value for value in values)
