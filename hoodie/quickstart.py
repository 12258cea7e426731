"""Generate sample trips: rows for a first table, for tests and for benchmarks.

Hudi: org.apache.hudi.QuickstartUtils.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from hoodie.common.util.arrow_buffers import rows_of
from hoodie.exception import HoodieException

DEFAULT_PARTITION_PATHS = (
    "americas/united_states/san_francisco",
    "americas/brazil/sao_paulo",
    "asia/india/chennai",
)
TRIP_SCHEMA = pa.schema(
    [
        ("uuid", pa.string()),
        ("ts", pa.int64()),
        ("rider", pa.string()),
        ("driver", pa.string()),
        ("begin_lat", pa.float64()),
        ("begin_lon", pa.float64()),
        ("end_lat", pa.float64()),
        ("end_lon", pa.float64()),
        ("fare", pa.float64()),
        ("partitionpath", pa.string()),
    ]
)
"""Record key ``uuid``, ordering field ``ts`` (milliseconds since 1970), partition field ``partitionpath``."""
KEY_COLUMNS = ("uuid", "partitionpath")

_SPAN_MS = 7 * 24 * 60 * 60 * 1000
_END_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""
_UUID_GROUPS = ((0, 8), (9, 13), (14, 18), (19, 23), (24, 36))
_HEX_DIGITS = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)


class DataGenerator:
    """Generates inserts, updates and deletes of trips, and keeps the rows that a table must hold after them.

    Every ``generate_*`` method assumes that its change is applied to the table: inserts and updates with ``upsert``
    (inserts with ``insert`` or ``bulk_insert`` as well), deletes with ``delete``, in the order in which they were
    generated.

    The same seed gives the same rows. Times are random within seven days, so updates may be older than the rows that
    they update: such updates lose, as in every table with the ordering field ``ts``.

        >>> generator = DataGenerator(seed=7)
        >>> inserts, updates = generator.generate_inserts(10), generator.generate_updates(5)
        >>> (inserts.num_rows, updates.num_rows, generator.rows.num_rows)
        (10, 5, 10)

    Hudi: org.apache.hudi.QuickstartUtils.DataGenerator. Differs: returns tables instead of records; keeps the rows, not
    only the keys; reproducible; chooses the deletes itself, and never updates deleted keys.
    """

    def __init__(
        self,
        seed: int = 0,
        partition_paths: Sequence[str] = DEFAULT_PARTITION_PATHS,
        end_time_ms: int = _END_MS,
    ) -> None:
        """Create a generator without trips.

        Args:
            seed: The seed of all random values.
            partition_paths: The values of ``partitionpath``; each trip gets one of them.
            end_time_ms: The values of ``ts`` are in the seven days before it; milliseconds since 1970.

        Raises:
            HoodieException: There is no partition path.
        """
        if isinstance(partition_paths, str) or not partition_paths:
            raise HoodieException(f"trips need a list of partition paths, not {partition_paths!r}")
        self._random = np.random.default_rng(seed)
        self._partition_paths = pa.array(partition_paths, pa.string())
        self._end_time_ms = end_time_ms
        self._rows: pa.Table = TRIP_SCHEMA.empty_table()

    @property
    def rows(self) -> pa.Table:
        """The rows, in any order, that a table with record key ``uuid`` and ordering field ``ts`` must hold now."""
        return self._rows

    @property
    def num_existing_keys(self) -> int:
        """The number of trips that were inserted and not deleted."""
        count: int = self._rows.num_rows
        return count

    def generate_inserts(self, n: int) -> pa.Table:
        """Generate new trips, spread evenly over the partition paths.

        Args:
            n: The number of trips.

        Returns:
            Rows of `TRIP_SCHEMA`; all methods but `generate_deletes` return these.
        """
        self._check_count(n)
        chosen = self._random.integers(0, len(self._partition_paths), n)
        inserts = self._trips(self._uuids(n), self._partition_paths.take(pa.array(chosen)))
        self._rows = pa.concat_tables([self._rows, inserts]).combine_chunks()
        return inserts

    def generate_updates(self, n: int) -> pa.Table:
        """Generate new versions of trips chosen at random; a trip may occur several times.

        Args:
            n: The number of rows.

        Raises:
            HoodieException: There are no trips to update.
        """
        self._check_count(n, needed=min(n, 1))
        return self._update(self._random.integers(0, self.num_existing_keys, n) if n else np.empty(0, np.int64))

    def generate_unique_updates(self, n: int) -> pa.Table:
        """Generate new versions of trips chosen at random, each trip at most once.

        Args:
            n: The number of trips; at most as many as exist.

        Raises:
            HoodieException: There are fewer trips.
        """
        self._check_count(n, needed=n)
        return self._update(self._random.permutation(self.num_existing_keys)[:n])

    def generate_deletes(self, n: int) -> pa.Table:
        """Generate the keys of trips chosen at random, each once. The trips are then deleted: later updates skip them.

        Args:
            n: The number of trips; at most as many as exist.

        Returns:
            The columns ``uuid`` and ``partitionpath``.

        Raises:
            HoodieException: There are fewer trips.
        """
        self._check_count(n, needed=n)
        shuffled = self._random.permutation(self.num_existing_keys)
        deletes = self._rows.select(KEY_COLUMNS).take(pa.array(shuffled[:n]))
        self._rows = self._rows.take(pa.array(np.sort(shuffled[n:])))
        return deletes

    def _check_count(self, n: int, needed: int = 0) -> None:
        if n < 0:
            raise HoodieException(f"cannot make {n} trips: the number must not be negative")
        if needed > self.num_existing_keys:
            raise HoodieException(
                f"cannot choose among {self.num_existing_keys:,} trips for {n:,} changes: make trips with "
                "generate_inserts first"
            )

    def _update(self, positions: np.ndarray) -> pa.Table:
        """New versions of the trips at these positions; the generator keeps them unless an earlier version is newer."""
        keys = self._rows.select(KEY_COLUMNS).take(pa.array(positions))
        updates = self._trips(keys["uuid"], keys["partitionpath"])
        times = updates["ts"].to_numpy()
        # Keep the newest of several versions of one trip; of equally new ones the last.
        order = np.lexsort((times, positions))
        newest = order[np.append(positions[order][1:] != positions[order][:-1], True)] if len(order) else order
        wins = times[newest] >= self._rows["ts"].to_numpy()[positions[newest]]
        winners = newest[wins]
        sources = np.arange(self.num_existing_keys)
        sources[positions[winners]] = self.num_existing_keys + winners
        self._rows = pa.concat_tables([self._rows, updates]).combine_chunks().take(pa.array(sources))
        return updates

    def _trips(self, uuids: pa.Array, partition_paths: pa.Array) -> pa.Table:
        """Random values for keys, with one rider and one driver for all of them, which distinguishes the changes."""
        count = len(uuids)
        suffix = f"{self._random.integers(0, 1000):03d}"
        columns = {
            "uuid": uuids,
            "ts": pa.array(self._end_time_ms - self._random.integers(0, _SPAN_MS, count)),
            "rider": pa.repeat(f"rider-{suffix}", count),
            "driver": pa.repeat(f"driver-{suffix}", count),
            "begin_lat": pa.array(self._random.random(count)),
            "begin_lon": pa.array(self._random.random(count)),
            "end_lat": pa.array(self._random.random(count)),
            "end_lon": pa.array(self._random.random(count)),
            "fare": pa.array(self._random.random(count) * 100),
            "partitionpath": partition_paths,
        }
        return pa.table(columns, schema=TRIP_SCHEMA)

    def _uuids(self, count: int) -> pa.Array:
        """Random UUIDs of version 4, in lower case."""
        nibbles = self._random.integers(0, 16, (count, 32), dtype=np.uint8)
        nibbles[:, 12] = 4
        nibbles[:, 16] = 8 | (nibbles[:, 16] & 3)
        digits = _HEX_DIGITS[nibbles]
        text = np.full((count, 36), ord("-"), dtype=np.uint8)
        start = 0
        for low, high in _UUID_GROUPS:
            text[:, low:high] = digits[:, start : start + high - low]
            start += high - low
        return rows_of(text, pa.string())
