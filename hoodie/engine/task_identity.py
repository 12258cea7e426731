"""The identity of a task: the parts of a write token."""

from __future__ import annotations

import attrs


@attrs.frozen
class TaskIdentity:
    """The identity of one attempt of one task.

    Attributes:
        partition_index: The number of the task's partition within its stage, from 0.
        stage_id: The number of the stage within the application.
        attempt_id: Unique within the application and never used again (Spark: ``taskAttemptId``, not ``attemptNumber``,
            which starts at 0 again with each attempt of the stage).
    """

    partition_index: int
    stage_id: int
    attempt_id: int

    @property
    def write_token(self) -> str:
        """``<partition>-<stage>-<attempt>``, the part of a file name that makes each attempt's file unique."""
        return f"{self.partition_index}-{self.stage_id}-{self.attempt_id}"
