"""The page of catalogs: its programs run against a metastore in the process, one after the other."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import hoodie
from hoodie.cli.main import command
from hoodie.config.write_config import HoodieWriteConfig
from tests.support.fake_metastore import FakeMetastore
from tests.support.page_programs import read_page

PAGE = "catalogs.md"
_TEXT = read_page(PAGE)
PROGRAMS = re.findall(r"^```python\n(.*?)^```", _TEXT, re.DOTALL | re.MULTILINE)
COMMANDS = re.findall(r"^```sh\n(.*?)^```", _TEXT, re.DOTALL | re.MULTILINE)


def rows(*days: str) -> pa.Table:
    return pa.table({"id": list(days), "day": list(days), "fare": [60.0] * len(days)})


def test_the_programs_of_the_page_do_what_they_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trips"
    hoodie.Table.create(
        path,
        rows("mon", "tue"),
        record_key_fields="id",
        partition_fields="day",
        table_name="trips",
        table_type="COPY_ON_WRITE",
    )
    by_hand, after_writes, differences, by_name, together, own_class, own, glue, manifest = PROGRAMS
    (tmp_path / "json_catalog.py").write_text(own_class)
    monkeypatch.syspath_prepend(tmp_path)
    with FakeMetastore() as metastore:

        def run(program: str, names: dict[str, Any]) -> None:
            program = program.replace("thrift://metastore:9083", metastore.uri)
            for place in ('"/data/trips"', '"gs://lake/trips"'):
                program = program.replace(place, repr(str(path)))
            program = program.replace('"/data/', f'"{tmp_path}/')
            exec(compile(program, PAGE, "exec"), names)

        names: dict[str, Any] = {"rows": rows("wed"), "hoodie": hoodie}
        run(by_hand, names)
        (call,) = COMMANDS
        words = shlex.split(call.replace("thrift://metastore:9083", metastore.uri).replace("/data/trips", str(path)))
        result = CliRunner().invoke(command, words[1:])
        assert result.exit_code == 0, result.output
        assert "default.trips: created, 2 partitions added" in result.output
        run(after_writes, names)
        assert hoodie.catalog(metastore.uri).tables() == ["trips"]
        assert metastore.entry("trips").tableType == "EXTERNAL_TABLE"
        run(differences, names)
        assert "no difference between 1 name and" in capsys.readouterr().out
        names["rows"] = rows("thu")
        run(by_name, names)
        assert hoodie.Table(path).count() == 4
        assert len(metastore.parts["rides", "trips"]) == 4
        run(together, names)
        assert not (tmp_path / "fares").exists()
        assert "rides.fares\nkind: EXTERNAL_TABLE" in capsys.readouterr().out
        names["rows"] = rows("fri")
        run(own, names)
        told = json.loads((tmp_path / "catalog.json").read_text())["rides"]["trips"]
        assert told["partitions"][0]["values"] == ["fri"]
        assert told["entry"]["parameters"]["last_commit_time_sync"] == hoodie.Table(path).history()[0].instant_time
        run(manifest, names)
        assert len((path / ".hoodie/absolute-path-manifest/latest-snapshot.csv").read_text().splitlines()) == 5
        options = eval(glue)
        assert HoodieWriteConfig.from_properties(str(path), options).hive_sync.mode == "glue"


def test_a_check_has_an_exit_code(tmp_path: Path) -> None:
    path = str(tmp_path)
    table = hoodie.Table.create(
        path,
        rows("mon"),
        record_key_fields="id",
        partition_fields="day",
        table_name="trips",
        table_type="COPY_ON_WRITE",
    )
    with FakeMetastore() as metastore:
        call = ["sync", path, "--catalog", "hms", "-p", f"hoodie.datasource.hive_sync.metastore.uris={metastore.uri}"]
        assert CliRunner().invoke(command, call).exit_code == 0
        assert CliRunner().invoke(command, [*call, "--check"]).exit_code == 0
        table.upsert(rows("tue"))
        found = CliRunner().invoke(command, [*call, "--check", "--json"])
        assert found.exit_code == 3
        assert "the partition day=tue is missing" in found.output or "the partition tue is missing" in found.output
        assert CliRunner().invoke(command, [*call, "--full"]).exit_code == 0
        assert CliRunner().invoke(command, [*call, "--check"]).exit_code == 0
    refused = CliRunner().invoke(command, ["sync", path, "--catalog", "hms"], env={"HIVE_CONF_DIR": ""})
    assert refused.exit_code == 2
