"""Properties of HoodieIncrSource."""

from __future__ import annotations

from enum import StrEnum

import attrs

from hoodie.common.config.property import PropertyGroup, boolean, choice, integer, property_field, text


class MissingCheckpointStrategy(StrEnum):
    """The beginning of a table without a position.

    Hudi: org.apache.hudi.utilities.sources.helpers.IncrSourceHelper.MissingCheckpointStrategy.
    """

    READ_LATEST = "READ_LATEST"
    READ_UPTO_LATEST_COMMIT = "READ_UPTO_LATEST_COMMIT"


@attrs.frozen(kw_only=True, repr=False)
class HoodieIncrSourceConfig(PropertyGroup):
    """Properties of HoodieIncrSource.

    Hudi: org.apache.hudi.utilities.config.HoodieIncrSourceConfig.
    """

    path: str = property_field("hoodie.streamer.source.hoodieincr.path", text("the folder of a Hudi table"), "")
    "The folder of the table that is read."
    num_instants: int = property_field("hoodie.streamer.source.hoodieincr.num_instants", integer(minimum=1), 5)
    "The most commits that a round reads."
    missing_checkpoint_strategy: MissingCheckpointStrategy | None = property_field(
        "hoodie.streamer.source.hoodieincr.missing.checkpoint.strategy", choice(MissingCheckpointStrategy), None
    )
    """The first round of a table without a position: `READ_LATEST` reads the newest commit alone,
    `READ_UPTO_LATEST_COMMIT` reads all rows as they are now. Without a strategy, that is an error. With
    `READ_UPTO_LATEST_COMMIT`, a position before the active timeline also reads all newer rows as they are now."""
    read_latest_on_missing_ckpt: bool = property_field(
        "hoodie.streamer.source.hoodieincr.read_latest_on_missing_ckpt", boolean(), False
    )
    "The older spelling of the strategy `READ_LATEST`."
    drop_all_meta_fields: bool = property_field(
        "hoodie.streamer.source.hoodieincr.drop.all.meta.fields.from.source", boolean(), False
    )
    "Whether `_hoodie_partition_path` is left out of the rows too, as the other meta columns always are."
    datasource_options: str = property_field(
        "hoodie.streamer.source.hoodieincr.data.datasource.options", text("k=v,k=v"), ""
    )
    "Read options of the table, `k=v` separated by commas, such as `hoodie.metadata.enable=true`."

    @property
    def strategy(self) -> MissingCheckpointStrategy | None:
        """The strategy, by either property."""
        return (
            MissingCheckpointStrategy.READ_LATEST
            if self.read_latest_on_missing_ckpt
            else self.missing_checkpoint_strategy
        )
