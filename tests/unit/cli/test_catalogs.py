"""The commands that look into a catalog, with a metastore in the process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import hoodie
from hoodie.cli.main import command
from tests.support.fake_metastore import FakeMetastore, hms


@pytest.fixture
def metastore(tmp_path: Path) -> Iterator[FakeMetastore]:
    rows = pa.table({"id": ["a", "b"], "day": ["mon", "tue"]})
    with FakeMetastore() as made:
        hoodie.write_table(
            rows, "rides.trips", catalog=made.uri, location=tmp_path / "trips", record_key_fields="id",
            partition_fields="day",
        )  # fmt: skip
        yield made


def run(metastore: FakeMetastore, *arguments: str) -> Result:
    return CliRunner().invoke(command, ["catalog", *arguments, "--catalog", metastore.uri])


def test_databases_and_tables_are_listed(metastore: FakeMetastore) -> None:
    assert json.loads(run(metastore, "list", "--json").stdout) == [{"database": "default"}, {"database": "rides"}]
    assert run(metastore, "list", "rides", "--csv").stdout == "database,table\nrides,trips\n"
    assert "trips" in run(metastore, "list", "rides").stdout
    assert json.loads(run(metastore, "list", "default", "--json").stdout) == []


def test_an_entry_is_shown_field_by_field(metastore: FakeMetastore, tmp_path: Path) -> None:
    metastore.entry("trips", "rides").parameters["db.password"] = "hush"
    shown = json.loads(run(metastore, "show", "rides.trips", "--json").stdout)
    assert shown["name"] == "rides.trips"
    assert shown["is_of_hudi"] is True
    assert shown["partition_count"] == 2
    assert shown["location"] == f"file:{tmp_path}/trips"
    assert shown["columns"][-1] == {"name": "id", "type": "string", "comment": ""}
    assert shown["partition_keys"] == [{"name": "day", "type": "string", "comment": ""}]
    assert shown["serde_parameters"]["path"] == f"{tmp_path}/trips"
    assert shown["parameters"]["spark.sql.sources.provider"] == "hudi"
    assert shown["parameters"]["db.password"] == "***"
    text = run(metastore, "show", "rides.trips").stdout
    assert text.startswith("rides.trips\nkind: EXTERNAL_TABLE\n")
    assert "\npartitions: 2\n" in text
    assert "\n  day: string\n" in text
    assert "hush" not in text


def test_entries_of_others_are_shown_too(metastore: FakeMetastore) -> None:
    view = metastore.entries["rides", "trips"]
    metastore.entries["rides", "seen"] = hms.Table(
        tableName="seen", dbName="rides", sd=view.sd, tableType="VIRTUAL_VIEW"
    )
    metastore.entry("seen", "rides").sd.inputFormat = "org.apache.hadoop.mapred.TextInputFormat"
    text = run(metastore, "show", "rides.seen").stdout
    assert "kind: VIRTUAL_VIEW, not a table of Hudi" in text
    assert "partitions" not in text


def test_errors_are_one_line_and_an_exit_code(metastore: FakeMetastore) -> None:
    missing = run(metastore, "show", "rides.none")
    assert missing.exit_code == 1
    assert "has no table rides.none" in missing.stderr
    assert len(missing.stderr.splitlines()) == 1
    assert run(metastore, "show", "rides.").exit_code == 2
    assert CliRunner().invoke(command, ["catalog", "list"]).exit_code == 2
    wrong = CliRunner().invoke(command, ["catalog", "list", "--catalog", "thrifts://ann:secret@h:1"])
    assert wrong.exit_code == 2
    assert "secret" not in wrong.output
