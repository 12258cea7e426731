"""The definitions of indexes, as real Hudi stores them."""

from __future__ import annotations

import json
from pathlib import Path

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.metadata.reader.index_definitions import load_index_definitions


def test_definitions_of_real_hudi_are_read_and_written_as_they_are(serviced_tables: Path) -> None:
    (table,) = (serviced_tables / "v9_expr_index").iterdir()
    stored = json.loads((table / ".hoodie/.index_defs/index.json").read_text())["indexDefinitions"]
    snapshot = TableSnapshot.load(str(table))
    found = load_index_definitions(snapshot.storage, snapshot.meta_path)
    assert {name: one.to_json(9) for name, one in found.items()} == stored
    day, upper = found["expr_index_day_of"], found["expr_index_low"]
    assert (day.function, dict(day.options)) == ("from_unixtime", {"expr": "from_unixtime", "format": "yyyy-MM-dd"})
    assert (upper.function, upper.index_type, upper.source_fields) == ("upper", "bloom_filters", ("name",))
    assert found["column_stats"].function == ""
    assert found["column_stats"].options == ()
