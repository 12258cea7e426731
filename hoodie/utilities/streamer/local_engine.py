"""The streamer in this process: a thread fetches and decodes while another one writes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from hoodie.client.base_write_client import BaseHoodieWriteClient
from hoodie.client.local_write_client import HoodieLocalWriteClient
from hoodie.client.validator.pre_commit_validators import HoodiePreCommitValidator, Validator
from hoodie.common.util.queue.bounded_in_memory_executor import BoundedInMemoryQueue, Stopped
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException, HoodieStreamerException, HoodieTransformException
from hoodie.threads import start_thread
from hoodie.utilities.ingestion.error_spool import ErrorSpool
from hoodie.utilities.sources.source import DecodedBatch, InputBatch
from hoodie.utilities.streamer.free_memory import FreedMemory
from hoodie.utilities.streamer.row_check import RowCheck
from hoodie.utilities.streamer.streamer_engine import BegunBatch, RowPlan, StreamerEngine, StreamerRows


class LocalStreamerEngine(StreamerEngine):
    """Reads, transforms and writes in this process, without Spark and without Java."""

    name = "local"

    def __init__(self) -> None:
        self._memory = FreedMemory()

    def open_client(
        self, config: HoodieWriteConfig, validators: Sequence[Validator | HoodiePreCommitValidator] = ()
    ) -> BaseHoodieWriteClient:
        """See `StreamerEngine.open_client`."""
        return HoodieLocalWriteClient(config, validators=validators)

    def begin(self, batch: InputBatch, ahead_bytes: int) -> BegunBatch:
        """See `StreamerEngine.begin`."""
        if batch.frame is not None:
            raise HoodieConfigException("the source gives rows of Spark: run the streamer with --engine spark")
        return DecodingThread(batch, ahead_bytes)

    def rows_of(self, begun: BegunBatch, plan: RowPlan) -> StreamerRows:
        """See `StreamerEngine.rows_of`."""
        if begun.batch.schema is None:
            raise HoodieStreamerException("the source gives rows and not their columns: this is a bug of the source")
        assert isinstance(begun, DecodingThread)
        return _LocalRows(begun, begun.batch.schema, plan)

    def end_round(self) -> None:
        """See `StreamerEngine.end_round`."""
        self._memory.give_back()

    def no_rows(self, schema: pa.Schema) -> Any:
        """See `StreamerEngine.no_rows`."""
        return schema.empty_table()


class _LocalRows(StreamerRows):
    """Rows that a thread decodes, at most so many bytes ahead of the one that writes."""

    def __init__(self, decoded: DecodingThread, schema: pa.Schema, plan: RowPlan) -> None:
        self._plan = plan
        self._errors = ErrorSpool()
        self._count = 0
        self._decoded = decoded
        self._transformed: pa.Table | None = None
        self._schema = schema
        if plan.transformer is not None:
            # A query may look at all rows of the batch.
            unchecked = RowCheck(keeps_errors=plan.check.keeps_errors)
            rows = pa.Table.from_batches(self._checked(schema, unchecked), schema)
            self._transformed = plan.transformer.apply(rows, plan.properties)
            if not isinstance(self._transformed, pa.Table):
                raise HoodieTransformException(
                    f"{plan.transformer} returned {type(self._transformed).__name__}, and a transformer returns an "
                    "Arrow table"
                )
            plan.tombstones.check_columns(self._transformed.column_names)
            self._schema = self._transformed.schema
        self._schema = plan.target_of(self._schema) or self._schema
        self._rows: Iterator[pa.RecordBatch] = self._batches()

    @property
    def schema(self) -> pa.Schema:
        """See `StreamerRows.schema`."""
        return self._schema

    @property
    def data(self) -> Any:
        """See `StreamerRows.data`."""
        return pa.RecordBatchReader.from_batches(self._schema, self._rows)

    def has_rows(self) -> bool:
        """See `StreamerRows.has_rows`."""
        first = next(self._rows, None)
        if first is not None:
            self._rows = chain([first], self._rows)
        return first is not None

    def errors(self) -> ErrorSpool:
        """See `StreamerRows.errors`."""
        return self._errors

    @property
    def row_count(self) -> int | None:
        """See `StreamerRows.row_count`."""
        return self._count

    def close(self) -> None:
        """See `StreamerRows.close`."""
        self._decoded.close()
        self._errors.close()
        self._transformed = None

    def _batches(self) -> Iterator[pa.RecordBatch]:
        self._count = 0
        if self._transformed is None:
            found = self._checked(self._schema, self._plan.check)
        else:
            decoded = (DecodedBatch(rows) for rows in self._transformed.to_batches())
            found = self._kept(decoded, self._plan.check, self._schema)
        for rows in found:
            self._count += len(rows)
            yield rows

    def _checked(self, schema: pa.Schema, check: RowCheck) -> Iterator[pa.RecordBatch]:
        return self._kept(iter(self._decoded), check, schema)

    def _kept(
        self, decoded: Iterator[DecodedBatch], check: RowCheck, schema: pa.Schema | None
    ) -> Iterator[pa.RecordBatch]:
        for one in decoded:
            is_as_wanted = schema is None or one.rows.schema.equals(schema)
            checked = check.checked(one, None if is_as_wanted else schema)
            if checked.errors is not None and len(checked.errors):
                self._errors.add(checked.errors)
            if len(checked.rows):
                yield checked.rows


class DecodingThread(BegunBatch):
    """A thread that reads a batch, at most so many bytes ahead. It starts at once.

    Args:
        batch: The batch.
        ahead_bytes: The most bytes of decoded rows that wait.
    """

    def __init__(self, batch: InputBatch, ahead_bytes: int) -> None:
        super().__init__(batch)
        self._queue: BoundedInMemoryQueue[DecodedBatch] = BoundedInMemoryQueue(ahead_bytes, _size)
        self._thread = threading.Thread(target=self._run, name="hoodie-streamer-decoder", daemon=True)
        start_thread(self._thread)

    def __iter__(self) -> Iterator[DecodedBatch]:
        return iter(self._queue)

    def wait(self) -> None:
        """See `BegunBatch.wait`."""
        self._thread.join()

    def close(self) -> None:
        """End the thread; rows that were not taken are gone."""
        self._queue.close()
        self._thread.join()

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            for read in self.batch.reads:
                for decoded in read.batches():
                    self._queue.put(decoded)
        except Stopped:
            pass
        except BaseException as caught:
            error = caught
        finally:
            self._queue.finish(error)


def _size(decoded: DecodedBatch) -> int:
    errors = 0 if decoded.errors is None else decoded.errors.nbytes
    return int(decoded.rows.nbytes + errors)
