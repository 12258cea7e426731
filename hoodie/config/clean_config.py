"""Properties of the cleaner, which deletes versions of files that nobody needs any more."""

from __future__ import annotations

from enum import StrEnum

import attrs

from hoodie.common.config.property import PropertyGroup, boolean, choice, integer, property_field

__all__ = ["CleaningPolicy", "CleaningTriggerStrategy", "HoodieCleanConfig"]


class CleaningPolicy(StrEnum):
    """What the cleaner keeps.

    Hudi: org.apache.hudi.common.model.HoodieCleaningPolicy.
    """

    KEEP_LATEST_COMMITS = "KEEP_LATEST_COMMITS"
    KEEP_LATEST_FILE_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"
    KEEP_LATEST_BY_HOURS = "KEEP_LATEST_BY_HOURS"


class CleaningTriggerStrategy(StrEnum):
    """When a clean is due.

    Hudi: org.apache.hudi.table.action.clean.CleaningTriggerStrategy.
    """

    NUM_COMMITS = "NUM_COMMITS"


@attrs.frozen(kw_only=True, repr=False)
class HoodieCleanConfig(PropertyGroup):
    """What is cleaned, and when.

    Hudi: org.apache.hudi.config.HoodieCleanConfig.
    """

    automatic: bool = property_field(
        "hoodie.clean.automatic",
        boolean(),
        True,
        "Clean after each commit. With false only `client.clean()` does.",
    )
    run_async: bool = property_field(
        "hoodie.clean.async",
        boolean(),
        False,
        "Clean in a thread of the client, beside the next write; `client.close()` waits for it. Errors are logged.",
        alternatives=("hoodie.clean.async.enabled",),
    )
    policy: CleaningPolicy = property_field(
        "hoodie.cleaner.policy",
        choice(CleaningPolicy),
        CleaningPolicy.KEEP_LATEST_COMMITS,
        "What is kept: KEEP_LATEST_COMMITS all that readers of the newest hoodie.cleaner.commits.retained commits "
        "need, KEEP_LATEST_BY_HOURS all that those of the last hoodie.cleaner.hours.retained hours need, "
        "KEEP_LATEST_FILE_VERSIONS the newest hoodie.cleaner.fileversions.retained versions of each file group. Not "
        "given, and of these three numbers one given: its policy.",
        alternatives=("hoodie.clean.policy",),
    )
    commits_retained: int = property_field(
        "hoodie.cleaner.commits.retained",
        integer(minimum=1, maximum=2**31 - 1),
        10,
        "Commits that stay readable as they were, by policy KEEP_LATEST_COMMITS.",
        alternatives=("hoodie.clean.commits.retained",),
    )
    hours_retained: int = property_field(
        "hoodie.cleaner.hours.retained",
        integer(minimum=1, maximum=2**31 - 1),
        24,
        "Hours of commits that stay readable as they were, by policy KEEP_LATEST_BY_HOURS.",
        alternatives=("hoodie.clean.hours.retained",),
    )
    file_versions_retained: int = property_field(
        "hoodie.cleaner.fileversions.retained",
        integer(minimum=1, maximum=2**31 - 1),
        3,
        "Versions of each file group that stay, by policy KEEP_LATEST_FILE_VERSIONS.",
        alternatives=("hoodie.clean.fileversions.retained",),
    )
    trigger_strategy: CleaningTriggerStrategy = property_field(
        "hoodie.clean.trigger.strategy",
        choice(CleaningTriggerStrategy),
        CleaningTriggerStrategy.NUM_COMMITS,
        "What makes a clean due: NUM_COMMITS so many commits after the last one.",
    )
    max_commits: int = property_field(
        "hoodie.clean.max.commits",
        integer(minimum=1, maximum=2**31 - 1),
        1,
        "Commits after the last clean that make the next one due.",
        alternatives=("hoodie.clean.trigger.max.commits",),
    )
    incremental: bool = property_field(
        "hoodie.cleaner.incremental.mode",
        boolean(),
        True,
        "Look only into partitions that changed between what the last clean kept and what this one keeps, instead of "
        "listing the whole table.",
        alternatives=("hoodie.clean.incremental.enabled",),
    )
    allow_multiple: bool = property_field(
        "hoodie.clean.allow.multiple",
        boolean(),
        False,
        "Plan a clean though an earlier one that is pending could not be finished.",
        alternatives=("hoodie.clean.multiple.enabled",),
    )
    parallelism: int = property_field(
        "hoodie.cleaner.parallelism",
        integer(minimum=1, maximum=2**31 - 1),
        200,
        "At most so many tasks list partitions, and delete files.",
        alternatives=("hoodie.clean.parallelism",),
    )
