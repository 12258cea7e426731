"""Properties of the archiver, which keeps the active timeline short."""

from __future__ import annotations

import attrs

from hoodie.common.config.property import PropertyGroup, boolean, integer, property_field

__all__ = ["HoodieArchivalConfig"]


@attrs.frozen(kw_only=True, repr=False)
class HoodieArchivalConfig(PropertyGroup):
    """What is archived, and when.

    Hudi: org.apache.hudi.config.HoodieArchivalConfig.
    """

    automatic: bool = property_field(
        "hoodie.archive.automatic",
        boolean(),
        True,
        "Archive after each commit, once there are too many. With false only `client.archive()` does.",
    )
    run_async: bool = property_field(
        "hoodie.archive.async",
        boolean(),
        False,
        "Archive in the thread that cleans (`hoodie.clean.async`), beside the next write.",
    )
    max_commits: int = property_field(
        "hoodie.keep.max.commits",
        integer(minimum=2, maximum=2**31 - 1),
        30,
        "Archive when the active timeline has more completed commits than this. Cleans and rollbacks are counted "
        "apart.",
    )
    min_commits: int = property_field(
        "hoodie.keep.min.commits",
        integer(minimum=1, maximum=2**31 - 1),
        20,
        "Archive down to so many. What the cleaner must still see stays in any case: when that are more commits, this "
        "and hoodie.keep.max.commits are raised.",
    )
    batch_size: int = property_field(
        "hoodie.commits.archival.batch",
        integer(minimum=1, maximum=2**31 - 1),
        10,
        "Entries in one block of an archive file.",
    )
    beyond_savepoint: bool = property_field(
        "hoodie.archive.beyond.savepoint",
        boolean(),
        False,
        "Archive commits after the oldest savepoint as well; those that have a savepoint stay. With false archiving "
        "ends before the oldest savepoint.",
    )
    block_on_latest_clean: bool = property_field(
        "hoodie.archive.block.on.latest.clean.ectr",
        boolean(),
        False,
        "Archive no commit that the last clean kept readable.",
        since="1.2.0",
    )
    merge_enable: bool = property_field(
        "hoodie.archive.merge.enable",
        boolean(),
        False,
        "Merge small files of the archive. (Hudi 1.x does not do it any more, and reads merged files.)",
    )
    merge_files_batch_size: int = property_field(
        "hoodie.archive.merge.files.batch.size",
        integer(minimum=2, maximum=2**31 - 1),
        10,
        "Small files that are merged into one.",
    )
    merge_small_file_limit_bytes: int = property_field(
        "hoodie.archive.merge.small.file.limit.bytes",
        integer(minimum=1),
        20 * 1024 * 1024,
        "A file of the archive that is smaller than this may be merged.",
    )
