"""The position of another table, for a table that goes on where that one is.

Hudi: org.apache.hudi.utilities.checkpointing.InitialCheckpointFromAnotherHoodieTimelineProvider.
"""

from __future__ import annotations

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant_time import is_instant_time
from hoodie.exception import HoodieStreamerException
from hoodie.utilities.checkpointing.initial_checkpoint_provider import PATH, InitialCheckPointProvider
from hoodie.utilities.sources.checkpoint import CheckpointVersion
from hoodie.utilities.sources.hoodie_incr_source import COMPLETION_TIME
from hoodie.utilities.streamer.checkpoint_utils import newest_checkpoint


class InitialCheckpointFromAnotherHoodieTimelineProvider(InitialCheckPointProvider):
    """The newest position that a table holds, in its archive too.

    A completion time of HoodieIncrSource is given as ``resumeFromInstantCompletionTime:...``, as ``--checkpoint`` takes
    it.

    Hudi: org.apache.hudi.utilities.checkpointing.InitialCheckpointFromAnotherHoodieTimelineProvider. Differs: the
    archive is read too.
    """

    def load_checkpoint(self) -> str:
        """See `InitialCheckPointProvider.load_checkpoint`.

        Raises:
            HoodieStreamerException: The table holds no position.
            TableNotFoundException: There is no table at the path.
        """
        found = newest_checkpoint(TableSnapshot.load(self.path, self.storage_options))
        if found is None or not found.position:
            raise HoodieStreamerException(
                f"{PATH} = {self.path}: no commit of this table, archived ones included, tells a position of a source. "
                "Name a table that a streamer fills, or give --checkpoint"
            )
        if found.version is CheckpointVersion.V2 and is_instant_time(found.position):
            return f"{COMPLETION_TIME}{found.position}"
        return found.position
