"""Properties of the cleaner, which deletes file versions that no reader needs any more."""

from __future__ import annotations

from enum import StrEnum

import attrs

from hoodie.common.config.property import PropertyGroup, boolean, choice, integer, property_field


class CleaningPolicy(StrEnum):
    """The rule by which the cleaner keeps file versions.

    Hudi: org.apache.hudi.common.model.HoodieCleaningPolicy.
    """

    KEEP_LATEST_COMMITS = "KEEP_LATEST_COMMITS"
    KEEP_LATEST_FILE_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"
    KEEP_LATEST_BY_HOURS = "KEEP_LATEST_BY_HOURS"


class CleaningTriggerStrategy(StrEnum):
    """The rule by which a clean becomes due.

    Hudi: org.apache.hudi.table.action.clean.CleaningTriggerStrategy.
    """

    NUM_COMMITS = "NUM_COMMITS"


@attrs.frozen(kw_only=True, repr=False)
class HoodieCleanConfig(PropertyGroup):
    """Cleaning of file versions: which ones, and when.

    Hudi: org.apache.hudi.config.HoodieCleanConfig.
    """

    automatic: bool = property_field("hoodie.clean.automatic", boolean(), True)
    """Clean after each commit. With false only `client.clean()` cleans."""
    run_async: bool = property_field(
        "hoodie.clean.async", boolean(), False, alternatives=("hoodie.clean.async.enabled",)
    )
    """Clean in a thread of the client, while the next write runs; `client.close()` waits for it. Errors are logged."""
    policy: CleaningPolicy = property_field(
        "hoodie.cleaner.policy",
        choice(CleaningPolicy),
        CleaningPolicy.KEEP_LATEST_COMMITS,
        alternatives=("hoodie.clean.policy",),
    )
    """What is kept. KEEP_LATEST_COMMITS: all files that readers of the newest hoodie.cleaner.commits.retained commits
    need. KEEP_LATEST_BY_HOURS: all files that readers of the last hoodie.cleaner.hours.retained hours need.
    KEEP_LATEST_FILE_VERSIONS: the newest hoodie.cleaner.fileversions.retained versions of each file group. If no policy
    is given but one of these three numbers is, the policy of that number applies."""
    commits_retained: int = property_field(
        "hoodie.cleaner.commits.retained",
        integer(minimum=1, maximum=2**31 - 1),
        10,
        alternatives=("hoodie.clean.commits.retained",),
    )
    """The number of commits that stay readable, with policy KEEP_LATEST_COMMITS."""
    hours_retained: int = property_field(
        "hoodie.cleaner.hours.retained",
        integer(minimum=1, maximum=2**31 - 1),
        24,
        alternatives=("hoodie.clean.hours.retained",),
    )
    """The number of hours whose commits stay readable, with policy KEEP_LATEST_BY_HOURS."""
    file_versions_retained: int = property_field(
        "hoodie.cleaner.fileversions.retained",
        integer(minimum=1, maximum=2**31 - 1),
        3,
        alternatives=("hoodie.clean.fileversions.retained",),
    )
    """The number of versions of each file group that stay, with policy KEEP_LATEST_FILE_VERSIONS."""
    trigger_strategy: CleaningTriggerStrategy = property_field(
        "hoodie.clean.trigger.strategy", choice(CleaningTriggerStrategy), CleaningTriggerStrategy.NUM_COMMITS
    )
    """What triggers a clean: NUM_COMMITS cleans after a number of commits since the last clean."""
    max_commits: int = property_field(
        "hoodie.clean.max.commits",
        integer(minimum=1, maximum=2**31 - 1),
        1,
        alternatives=("hoodie.clean.trigger.max.commits",),
    )
    """The number of commits since the last clean that trigger the next one."""
    incremental: bool = property_field(
        "hoodie.cleaner.incremental.mode", boolean(), True, alternatives=("hoodie.clean.incremental.enabled",)
    )
    """List only the partitions that changed between the oldest commit that the last clean kept and the oldest one that
    this clean keeps, instead of the whole table."""
    allow_multiple: bool = property_field(
        "hoodie.clean.allow.multiple", boolean(), False, alternatives=("hoodie.clean.multiple.enabled",)
    )
    """Plan a clean even if an earlier one is pending and could not be finished."""
    parallelism: int = property_field(
        "hoodie.cleaner.parallelism",
        integer(minimum=1, maximum=2**31 - 1),
        200,
        alternatives=("hoodie.clean.parallelism",),
    )
    """The maximum number of tasks that list partitions and delete files."""
