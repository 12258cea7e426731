"""The position of a source, as the commits of a table hold it.

Hudi: org.apache.hudi.common.table.checkpoint.Checkpoint, StreamerCheckpointV1, StreamerCheckpointV2.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import attrs

from hoodie.common.table.commit_marks import POSITION_KEYS


class CheckpointVersion(StrEnum):
    """The keys that hold a position in the extra metadata of a commit."""

    V1 = "V1"
    V2 = "V2"

    @property
    def position_key(self) -> str:
        """The key of the position."""
        return POSITION_KEYS[0] if self is self.V1 else POSITION_KEYS[1]

    @property
    def reset_key(self) -> str:
        """The key of the value of ``--checkpoint`` in that run."""
        return "deltastreamer.checkpoint.reset_key" if self is self.V1 else "streamer.checkpoint.reset.key.v2"


@attrs.frozen
class Checkpoint:
    """A position to read from.

    Attributes:
        position: The text that the source made of it, or that a user gave.
        version: The keys that hold it. Only HoodieIncrSource has ``V2``, in tables of version 8 and later.
        own: Further keys and values beside the position, which the source itself added (keys of hoodie's own).
        is_given: Whether the user gave the position for this round (``--checkpoint``), so no commit holds it yet.
    """

    position: str
    version: CheckpointVersion = CheckpointVersion.V1
    own: Mapping[str, str] = attrs.field(factory=dict)
    is_given: bool = False
