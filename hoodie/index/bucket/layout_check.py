"""Refuse an index that contradicts how the files of a table were laid out, before anything is written.

A table of version 6 does not store whether it has buckets, nor how many. Two facts help: hoodie stores the layout in
the extra metadata of each commit that it makes with a bucket index (`HoodieIndex.commit_metadata`), and the ids of file
groups begin with the number of their bucket. If real Hudi wrote last, some keys of its files are hashed; each must be
in its bucket. Partitions that the newest commit did not touch are checked when they are written, see `misplaced_keys`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.index_config import BucketKeyRule
from hoodie.exception import HoodieConfigException, HoodieIndexException, HoodieMissingFileException
from hoodie.index.bucket.bucket_identifier import BucketIdentifier, bucket_of_file_id
from hoodie.index.bucket.misplaced_keys import WAY_OUT, CheckSampledKeys
from hoodie.index.bucket.simple_bucket_index import HoodieSimpleBucketIndex
from hoodie.index.bucket.table_layout import BUCKETS_KEY, FIELDS_KEY, RULE_KEY, TYPE_KEY, TableLayout
from hoodie.index.index import HoodieIndex
from hoodie.storage.storage_path import join

SAMPLED_FILES = 4


def check_layout(
    index: HoodieIndex,
    snapshot: TableSnapshot,
    record_key_fields: Sequence[str],
    replaces_all: bool = False,
    layout: TableLayout | None = None,
) -> None:
    """Refuse an index that would store keys of the table a second time.

    It reads the newest commit that wrote files, and up to `SAMPLED_FILES` of these files if real Hudi wrote them.

    Args:
        index: The index of the writer.
        snapshot: The table.
        record_key_fields: The table's.
        replaces_all: Whether the write replaces all present file groups.
        layout: Its files, if they were read before.

    Raises:
        HoodieIndexException: The table has buckets and the index none, or the other way round, or other buckets.
        HoodieConfigException: A hash field is not a record key field.
    """
    identifier = index.identifier(record_key_fields) if isinstance(index, HoodieSimpleBucketIndex) else None
    if identifier is not None:
        _check_hash_fields(identifier)
    if replaces_all:
        return
    layout = layout or TableLayout(snapshot)
    stats, stored = layout.newest
    if not stats:
        return
    table = f"the table at {snapshot.base_path}"
    if identifier is None:
        if not index.names_file_groups and layout.has_buckets:
            buckets = f" ({BUCKETS_KEY}={stored[BUCKETS_KEY]})" if BUCKETS_KEY in stored else ""
            raise HoodieIndexException(
                f"{table} was written with hoodie.index.type=BUCKET{buckets}, and this writer has another index: "
                "its new records would be in file groups where a writer of buckets never looks, and be stored twice. "
                f"{WAY_OUT}"
            )
        return
    _check_file_ids(stats, identifier, table)
    if stored.get(TYPE_KEY) == "BUCKET":
        _check_stored_layout(stored, identifier, table)
    elif snapshot.table_config.populate_meta_fields:
        _check_keys(layout, identifier)


def _check_hash_fields(identifier: BucketIdentifier) -> None:
    strange = [field for field in identifier.hash_fields if field not in identifier.key_fields]
    if strange:
        raise HoodieConfigException(
            f"{FIELDS_KEY} = {','.join(identifier.hash_fields)}: {', '.join(strange)} is not a record key field; the "
            f"record key fields are {','.join(identifier.key_fields)}, and some or all of them must be hashed"
        )


def _check_file_ids(stats: Sequence[HoodieWriteStat], identifier: BucketIdentifier, table: str) -> None:
    for stat in stats:
        bucket = bucket_of_file_id(str(stat.file_id))
        if bucket is None:
            raise HoodieIndexException(
                f"{table} was not written with hoodie.index.type=BUCKET: the file id {stat.file_id} is of no bucket. "
                f"Its keys would be stored a second time. {WAY_OUT}"
            )
        if bucket >= identifier.num_buckets:
            raise HoodieIndexException(
                f"{table} has more buckets than {BUCKETS_KEY}={identifier.num_buckets}: the file id {stat.file_id} is "
                f"that of bucket {bucket}. Its keys would be stored a second time. {WAY_OUT}"
            )


def _check_stored_layout(stored: Mapping[str, str], identifier: BucketIdentifier, table: str) -> None:
    """Compare the layout with that of the newest commit."""
    found = {
        BUCKETS_KEY: (stored.get(BUCKETS_KEY, ""), str(identifier.num_buckets)),
        FIELDS_KEY: (
            ",".join(sorted(stored.get(FIELDS_KEY, "").split(","))),
            ",".join(sorted(identifier.hash_fields)),
        ),
        RULE_KEY: (stored.get(RULE_KEY, ""), identifier.rule.value),
    }
    if found[RULE_KEY][0] in ("", BucketKeyRule.REFUSE.value):
        # The table has no key for which releases of Hudi have different buckets, so any rule may be used from now on.
        del found[RULE_KEY]
    differ = {name: values for name, values in found.items() if values[0] != values[1]}
    if differ:
        lines = "; ".join(
            f"{name} is {stored_value} there and {own_value} here" for name, (stored_value, own_value) in differ.items()
        )
        raise HoodieIndexException(
            f"{table} has other buckets than this writer: {lines}. Its keys would be stored a second time. {WAY_OUT}"
        )


def _check_keys(layout: TableLayout, identifier: BucketIdentifier) -> None:
    """Hash keys of a few files: each must be in its bucket."""
    stats, _ = layout.newest
    try:
        _check_keys_of(stats, identifier, layout.snapshot)
    except HoodieMissingFileException:
        # A compaction has written the file anew, or a commit has replaced it, and a clean has deleted it.
        _check_keys_of(layout.some_files(), identifier, layout.snapshot)


def _check_keys_of(stats: Sequence[HoodieWriteStat], identifier: BucketIdentifier, snapshot: TableSnapshot) -> None:
    files = [stat for stat in stats if stat.num_writes and str(stat.path).endswith(".parquet")]
    # The files with the most rows give the best sample.
    sampled = sorted(files, key=lambda stat: -stat.num_writes)[:SAMPLED_FILES]
    paths = [(join(snapshot.base_path, str(stat.path)), str(stat.file_id)) for stat in sampled]
    CheckSampledKeys(snapshot.storage, identifier)(None, paths)
