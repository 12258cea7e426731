"""Properties of merging log files with their base file, for readers and for writers that read; memory limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import attrs

from hoodie.common.config.property import (
    PropertyGroup,
    all_keys,
    boolean,
    integer,
    property_field,
    read_group,
    text,
    to_property_value,
)
from hoodie.exception import HoodieConfigException


@attrs.frozen(kw_only=True, repr=False)
class HoodieLogMergeConfig(PropertyGroup):
    """Merging of log files when they are read, and the memory that merging and sorting take.

    Hudi: org.apache.hudi.config.HoodieMemoryConfig and org.apache.hudi.common.config.HoodieReaderConfig.
    """

    merge_max_size: int = property_field("hoodie.memory.merge.max.size", integer(minimum=0), 1 << 30)
    """The records of a file group's log files are held in memory up to this size, in bytes. Above it their rows go to a
    local file; keys, ordering values and places stay in memory."""
    clustering_max_size: int = property_field(
        "hoodie.memory.clustering.max.size", integer(minimum=1 << 20), 1 << 30, is_ours=True
    )
    """A clustering sorts the rows of a group in memory of up to this size, in bytes; each of the tasks that run at the
    same time has so much. Above it sorted parts go to local files, and are merged."""
    spillable_map_path: str | None = property_field("hoodie.memory.spillable.map.path", text(), None)
    """The local folder of these files, which are removed when the file group was read or sorted. The default is the
    system's folder for temporary files."""
    use_record_positions: bool = property_field("hoodie.merge.use.record.positions", boolean(), True)
    """Find the rows of the base file by the positions that blocks of log files name, if all blocks of a file group name
    positions in its present base file; else, and without this, by record keys."""

    @classmethod
    def from_options(cls, options: Mapping[str, Any] | None) -> Self:
        """Parse the options of a query; others are left alone.

        Args:
            options: Hudi's names, in any case, to values.

        Raises:
            HoodieConfigException: Values are not allowed; the message lists all of them.
        """
        own = {key.lower(): key for key in all_keys([cls])}
        given = {own[str(key).lower()]: value for key, value in (options or {}).items() if str(key).lower() in own}
        problems: list[str] = []
        config = read_group(cls, {key: to_property_value(value) for key, value in given.items()}, problems)
        if problems:
            raise HoodieConfigException("; ".join(problems))
        return config
