from __future__ import annotations

import pyarrow as pa

from hoodie.utilities.ingestion.error_event import ErrorEvent, ErrorReason, error_batch
from hoodie.utilities.ingestion.error_spool import ErrorSpool


def errors(*offsets: int) -> pa.RecordBatch:
    batch = error_batch([ErrorEvent(ErrorReason.RECORD_CREATION, "x" * 100, "{}", "t", 0, one) for one in offsets])
    assert batch is not None
    return batch


def test_errors_come_back_in_their_order_from_memory_and_from_a_file() -> None:
    for most in (1, 1000, 1 << 20):
        spool = ErrorSpool(most)
        for first in range(0, 30, 3):
            spool.add(errors(first, first + 1, first + 2))
        assert spool.count == 30
        # Twice, as a round may look at them and then write them.
        for _ in range(2):
            assert [offset for batch in spool for offset in batch["offset"].to_pylist()] == list(range(30))
        spool.close()
        spool.close()
        assert list(spool) == []


def test_few_errors_need_no_file() -> None:
    spool = ErrorSpool()
    spool.add(errors(1))
    assert spool._file is None
    spool.close()


def test_many_errors_are_not_held() -> None:
    spool = ErrorSpool(10_000)
    for first in range(500):
        spool.add(errors(first))
        assert spool._bytes <= 10_000
    assert spool._file is not None
    spool.close()
