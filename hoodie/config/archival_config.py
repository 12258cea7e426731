"""Properties of the archiver, which moves old instants out of the active timeline."""

from __future__ import annotations

import attrs

from hoodie.common.config.property import PropertyGroup, boolean, integer, property_field


@attrs.frozen(kw_only=True, repr=False)
class HoodieArchivalConfig(PropertyGroup):
    """Archiving of instants: which ones, and when.

    Hudi: org.apache.hudi.config.HoodieArchivalConfig.
    """

    automatic: bool = property_field("hoodie.archive.automatic", boolean(), True)
    """Archive after each commit, if there are too many instants. With false only `client.archive()` archives."""
    run_async: bool = property_field("hoodie.archive.async", boolean(), False)
    """Archive in the thread that cleans (`hoodie.clean.async`), while the next write runs."""
    max_commits: int = property_field("hoodie.keep.max.commits", integer(minimum=2, maximum=2**31 - 1), 30)
    """Archive when the active timeline has more completed commits than this. Cleans and rollbacks are counted
    separately."""
    min_commits: int = property_field("hoodie.keep.min.commits", integer(minimum=1, maximum=2**31 - 1), 20)
    """The number of commits that archiving leaves. What the cleaner still needs stays in any case: if that is more
    commits, this number and hoodie.keep.max.commits are raised."""
    batch_size: int = property_field("hoodie.commits.archival.batch", integer(minimum=1, maximum=2**31 - 1), 10)
    """Entries in one block of an archive file."""
    beyond_savepoint: bool = property_field("hoodie.archive.beyond.savepoint", boolean(), False)
    """Archive commits that are newer than the oldest savepoint too, except those with a savepoint. With false archiving
    stops before the oldest savepoint."""
    block_on_latest_clean: bool = property_field(
        "hoodie.archive.block.on.latest.clean.ectr", boolean(), False, since="1.2.0"
    )
    """Never archive a commit that the last clean kept readable."""
    merge_enable: bool = property_field("hoodie.archive.merge.enable", boolean(), False)
    """Merge small archive files. (Hudi 1.x no longer merges, but reads merged files.)"""
    merge_files_batch_size: int = property_field(
        "hoodie.archive.merge.files.batch.size", integer(minimum=2, maximum=2**31 - 1), 10
    )
    """The number of small files that are merged into one."""
    merge_small_file_limit_bytes: int = property_field(
        "hoodie.archive.merge.small.file.limit.bytes", integer(minimum=1), 20 * 1024 * 1024
    )
    """An archive file smaller than this may be merged."""
    compaction_batch_size: int = property_field(
        "hoodie.timeline.compaction.batch.size", integer(minimum=2, maximum=2**31 - 1), 10, since="1.0.0"
    )
    """Tables of versions 8 and 9: when a level of the archive has so many files, they become one file of the next
    level."""
    compaction_target_file_max_bytes: int = property_field(
        "hoodie.timeline.compaction.target.file.max.bytes", integer(minimum=1), 1000 * 1024 * 1024, since="1.0.0"
    )
    """Tables of versions 8 and 9: the oldest files of a level are compacted up to this size together, at least two."""
    manifest_retained_versions: int = property_field(
        "hoodie.timeline.manifest.retained.versions", integer(minimum=1, maximum=2**31 - 1), 3, since="1.1.0"
    )
    """Tables of versions 8 and 9: how many manifests of the archive stay, for readers that have begun with them."""
