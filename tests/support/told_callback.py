"""A callback that keeps what it is told."""

from __future__ import annotations

from typing import ClassVar

from hoodie.callback.write_commit_callback import HoodieWriteCommitCallback, HoodieWriteCommitCallbackMessage


class ToldCallback(HoodieWriteCommitCallback):
    """Keeps instant, table and folder of each commit."""

    told: ClassVar[list[tuple[str, str, str]]] = []

    def call(self, message: HoodieWriteCommitCallbackMessage) -> None:
        self.told.append((message.commit_time, message.table_name, message.base_path))
