"""Notice stored keys that are in another bucket than the writer's number of buckets puts them in.

Real Hudi does not compare a writer's number of buckets with that of the table. Each partition, and even each file, may
have been written with another number. The numbers of file groups reveal only some of these cases; the keys in them
reveal the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import pyarrow as pa

from hoodie.common.model.record_columns import RECORD_KEY_META
from hoodie.config.index_config import BucketKeyRule
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieIndexException, HoodieKeyException
from hoodie.index.bucket.bucket_identifier import BucketIdentifier, bucket_of_file_id
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.storage.storage import HoodieStorage

SAMPLED_KEYS = 1000
"""Most keys of a file that are hashed."""
ENOUGH_KEYS = 64
"""After this many keys no further file is opened: in another layout, some of them would be in a wrong bucket."""
SAMPLED_FILES = 16
"""Most files that are opened, if they have few keys."""
WAY_OUT = (
    "Give the index options that the table was written with, or write all its rows anew, to another table or by "
    "insert_overwrite_table, which takes any index; nothing was committed"
)


@attrs.frozen
class MisplacedKeyCheck:
    """Refuses keys of a file that belong to another bucket; crosses to tasks.

    Attributes:
        identifier: The writer's buckets.
    """

    identifier: BucketIdentifier

    def __call__(self, stored: pa.Array | pa.ChunkedArray, path: str, file_id: str) -> int:
        """Hash keys; if there are many, a sample that is spread evenly over them.

        Args:
            stored: Record keys of the file (string); nulls are skipped.
            path: Full path of the base file.
            file_id: Its file group.

        Returns:
            The number of keys that were hashed.

        Raises:
            HoodieIndexException: A key is in the wrong bucket.
        """
        if len(stored) > SAMPLED_KEYS:
            stored = stored.take(pa.array(np.linspace(0, len(stored) - 1, SAMPLED_KEYS).astype(np.int64)))
        keys = stored.combine_chunks() if isinstance(stored, pa.ChunkedArray) else stored
        keys = keys.drop_null()
        bucket = bucket_of_file_id(file_id)
        wrong = self._misplaced(keys, bucket)
        if len(wrong):
            identifier = self.identifier
            key = wrong[0].as_py()
            raise HoodieIndexException(
                f"the table has other buckets than this writer: the key '{key}' is in {path}, but with "
                f"hoodie.bucket.index.num.buckets={identifier.num_buckets}, hoodie.bucket.index.hash.field="
                f"{','.join(identifier.hash_fields)} and hoodie.bucket.index.key.rule={identifier.rule.value} it is "
                f"not of bucket {bucket}. It would be stored a second time. {WAY_OUT}"
            )
        return len(keys)

    def _misplaced(self, keys: pa.Array, bucket: int | None) -> pa.Array:
        """The keys of other buckets. If releases of Hudi disagree about a key, it may be where any of them puts it."""
        rules = [self.identifier.rule]
        if rules == [BucketKeyRule.REFUSE]:
            rules = [BucketKeyRule.HUDI_0_15, BucketKeyRule.HUDI_1_X]
        for rule in rules:
            if not len(keys):
                break
            try:
                buckets = attrs.evolve(self.identifier, rule=rule).bucket_ids(keys)
            except HoodieKeyException:
                # The rule cannot split some keys into fields, so a writer with this rule did not put them here.
                continue
            keys = keys.filter(pa.array(buckets != bucket))
        return keys


@attrs.frozen
class CheckSampledKeys:
    """Task: refuse a partition whose files have keys of other buckets.

    It reads the files of the lowest buckets. If a partition has fewer buckets than the writer, these files hold keys of
    the others.

    Attributes:
        storage: The storage of the files.
        identifier: The writer's buckets.
    """

    storage: HoodieStorage
    identifier: BucketIdentifier

    def __call__(self, task: TaskIdentity | None, files: Sequence[tuple[str, str]]) -> None:
        """Read keys of a few files.

        Args:
            task: The task.
            files: (full path, file id) of base files of buckets.

        Raises:
            HoodieIndexException: A key is in the wrong bucket.
        """
        seen = 0
        schema = pa.schema([(RECORD_KEY_META, pa.string())])
        check = MisplacedKeyCheck(self.identifier)
        for path, file_id in sorted(files, key=lambda file: file[1])[:SAMPLED_FILES]:
            with HoodieParquetReader(self.storage, path) as reader:
                batch = next(reader.iter_batches([RECORD_KEY_META], schema, batch_rows=SAMPLED_KEYS), None)
            seen += check(batch.column(0), path, file_id) if batch is not None else 0
            if seen >= ENOUGH_KEYS:
                return
