"""Properties of a run of the streamer that belong to no source.

Hudi: org.apache.hudi.utilities.config.HoodieStreamerConfig.
"""

from __future__ import annotations

import attrs

from hoodie.common.config.property import PropertyGroup, boolean, decimal, integer, property_field, text


@attrs.frozen(kw_only=True, repr=False)
class HoodieStreamerConfig(PropertyGroup):
    """A run of the streamer."""

    checkpoint_provider_path: str | None = property_field("hoodie.streamer.checkpoint.provider.path", text(), None)
    """The folder or the table that ``--initial-checkpoint-provider`` looks into."""
    checkpoint_force_skip: bool = property_field("hoodie.streamer.checkpoint.force.skip", boolean(), False)
    """Store no position in the commits of this run, for a back-fill beside the usual source."""
    source_id: str = property_field("hoodie.streamer.source.id", text(), "", is_ours=True)
    """The name of this source, where several fill one table: each has its own position."""
    prefetch_max_bytes: int = property_field(
        "hoodie.streamer.prefetch.max.bytes", integer(minimum=1), 128 << 20, is_ours=True
    )
    """The most bytes of decoded rows that wait for the writer. In continuous mode the next batch is decoded meanwhile.
    """
    unhealthy_failed_rounds: int = property_field(
        "hoodie.streamer.health.max.failed.rounds", integer(minimum=1), 3, is_ours=True
    )
    """``/health`` answers 503 after so many failed rounds in a row."""
    unhealthy_after_seconds: int = property_field(
        "hoodie.streamer.health.max.seconds.without.round", integer(minimum=1), 3600, is_ours=True
    )
    """``/health`` answers 503 when the last round ended longer ago."""
    retry_initial_seconds: int = property_field(
        "hoodie.streamer.retry.initial.seconds", integer(minimum=0), 1, is_ours=True
    )
    """The pause before a failed round of continuous mode is tried again; it doubles each time, up to 60 seconds."""
    retry_max_attempts: int = property_field("hoodie.streamer.retry.max.attempts", integer(minimum=0), 10, is_ours=True)
    """How often in a row a round of continuous mode is tried again after a time-out of the source, a source file that
    vanished or changed after it was listed, a lock that another writer holds, or a conflict with another writer."""
    idle_seconds: float = property_field(
        "hoodie.streamer.idle.seconds", decimal(above=-1.0, at_most=86400.0), 1.0, is_ours=True
    )
    """The least time from start to start after a round of continuous mode that found nothing new, so that a quiet
    source is not asked all the time; --min-sync-interval-seconds may make it longer."""
    makes_columns_nullable: bool = property_field(
        "hoodie.streamer.schema.make.columns.nullable", boolean(), False, since="1.1.0"
    )
    """Whether all columns, also those inside others, may be null, where no schema provider tells the columns to write.
    """
    sample_writes_enabled: bool = property_field("hoodie.streamer.sample.writes.enabled", boolean(), False)
    """No effect: the size of records is known once the first file is written."""
    sample_writes_size: int = property_field("hoodie.streamer.sample.writes.size", integer(minimum=1), 5000)
    """No effect."""
    row_writer_enable: bool = property_field("hoodie.streamer.write.row.writer.enable", boolean(), False)
    """No effect: rows are always written as columns."""
    termination_rounds: int = property_field("max.rounds.without.new.data.to.shutdown", integer(minimum=1), 3)
    """The rounds without a commit after which ``NoNewDataTerminationStrategy`` ends the run."""
