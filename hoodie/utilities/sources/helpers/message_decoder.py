"""The contract of everything that makes rows of Kafka's messages: JSON, Avro, Protobuf, Debezium."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.utilities.sources.source import DecodedBatch


@attrs.frozen(eq=False)
class Messages:
    """A block of messages of one partition, in the order of their offsets.

    Attributes:
        topic: The topic.
        partition: The partition.
        offsets: int64, one of each message.
        values: The values; None for a tombstone.
        keys: The keys; None for a message without one.
        timestamps_ms: int64: milliseconds since the epoch; -1 where there is none.
        headers: The headers of each message; None unless they are asked for.
    """

    topic: str
    partition: int
    offsets: npt.NDArray[np.int64]
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    timestamps_ms: npt.NDArray[np.int64]
    headers: Sequence[Sequence[tuple[str, bytes | None]] | None] | None = None

    def __len__(self) -> int:
        return len(self.values)


class MessageDecoder(ABC):
    """Makes rows of messages. Picklable; used by one thread at a time."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns of every batch that `decode` returns."""

    @abstractmethod
    def decode(self, messages: Messages) -> DecodedBatch:
        """Make rows of a block of messages, in their order.

        Tombstones give no row, unless the decoder says otherwise. A message that cannot be decoded gives an error with
        its topic, partition and offset, and does not change what becomes of the others.

        Args:
            messages: The messages.
        """
