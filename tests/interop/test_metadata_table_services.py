"""Metadata tables that hoodie and real Hudi keep in turn: each compacts and cleans what the other wrote."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import HoodieTableMetaClient
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.metadata import validate
from hoodie.metadata.reader.metadata_table_files import MetadataTableFiles
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import SIMPLE, Row, TableModel, rows_of
from tests.support.table_builder import local_client

pytestmark = [pytest.mark.interop, pytest.mark.table_versions(6, 8, 9)]

SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())])
METADATA = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.cleaner.commits.retained": "2",
}
WITH = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
HOODIE, HUDI = "hoodie", "hudi"
TURNS = [HOODIE] * 6 + [HUDI] * 2 + [HOODIE] * 3 + [HUDI] * 4 + [HOODIE] * 3


def compactions(base_path: Path) -> set[str]:
    """The completed compactions of the metadata table."""
    snapshot = MetadataTableFiles.load(TableSnapshot.load(str(base_path))).snapshot
    return set(snapshot.active_timeline.filter_actions(Action.COMMIT).filter_completed_instants().times)


def test_each_goes_on_with_what_the_other_compacted(tmp_path: Path, hudi: HudiProcess) -> None:
    base_path = tmp_path / "t"
    model = TableModel(SIMPLE, SCHEMA, event_time=True)
    HoodieTableMetaClient.init_table(str(base_path), table_name="listed", **SIMPLE.init_arguments())
    done: Counter[str] = Counter()
    before: set[str] = set()
    for ts, turn in enumerate(TURNS):
        rows: list[Row] = [
            {"id": f"k{n}", "region": SIMPLE.regions[n % 3], "ts": ts, "fare": n + ts / 4} for n in range(ts, ts + 9)
        ]
        if turn == HOODIE:
            with local_client(base_path, METADATA) as client:
                client.upsert(model.table(rows))
        else:
            hudi.write(base_path, model.table(rows), {**SIMPLE.hudi_options("listed"), **METADATA}, operation="upsert")
        model.upsert(rows)
        found = compactions(base_path)
        done[turn] += len(found - before)
        before |= found
        result = validate(str(base_path))
        assert result.is_right, (turn, ts, result)
        assert {"files", "column_stats", "bloom_filters"} <= set(result.entry_counts), (turn, ts)
        if turn == HUDI or TURNS[ts + 1 : ts + 2] != [HOODIE] or ts == 4:
            assert rows_of(hudi.read(base_path, WITH), SCHEMA) == model.expected(), (turn, ts)
    assert done[HOODIE] >= 2, done
    assert done[HUDI] >= 1, done
