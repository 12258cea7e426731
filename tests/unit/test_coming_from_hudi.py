"""The page for users of Hudi: its names exist, its programs run, its defaults are the code's."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.config.property import all_keys
from hoodie.config.hudi_keys import KeyClass, find_hudi_key
from hoodie.config.write_config import GROUPS
from hoodie.utilities.config.groups import STREAMER_GROUPS
from tests.support.hudi_options_page import load_hudi_defaults

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "coming-from-hudi.md").read_text(encoding="utf-8")
MAP = (DOCS / "java-map.md").read_text(encoding="utf-8")


def rows(section: str) -> list[list[str]]:
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| `")
    ]


def resolve(name: str) -> object:
    module_name, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module_name), attribute)


@pytest.mark.parametrize("row", rows("Classes"), ids=lambda row: row[0])
def test_every_class_of_the_page_exists_and_stands_in_the_map(row: list[str]) -> None:
    hudi = row[0].split("`")[1]
    name = row[1].strip("`")
    if "Spark" not in name:
        assert resolve(name) is not None
    assert f"`{hudi}`" in MAP or hudi.startswith("org.apache.hudi.exception.")


def test_every_option_of_the_page_is_one() -> None:
    known = all_keys([*GROUPS.values(), *STREAMER_GROUPS])
    names = set(re.findall(r"[`\"](hoodie\.[a-z][a-z_.]+[a-z])[`\"=]", PAGE))
    modules = {name for name in names if name.split(".")[1] in ("spark", "common", "execution", "keygen", "exception")}
    calls = {name for name in names if hasattr(hoodie, name.split(".")[1])}
    wrong = {n for n in names - modules - calls if n not in known and find_hudi_key(n) is None}
    assert not wrong
    assert len(names) > 15


def test_the_defaults_of_the_page_are_those_of_the_code() -> None:
    known = all_keys(GROUPS.values())
    assert known["hoodie.parquet.compression.codec"].default == "snappy"
    assert load_hudi_defaults()["hoodie.parquet.compression.codec"].in_0_15 == "gzip"
    assert known["hoodie.write.markers.type"].default == "DIRECT"
    assert load_hudi_defaults()["hoodie.write.markers.type"].in_1_2 == "TIMELINE_SERVER_BASED"
    assert load_hudi_defaults()["hoodie.datasource.write.precombine.field"].in_0_15 == "ts"
    assert load_hudi_defaults()["hoodie.metadata.enable"].in_1_2 == "true"
    assert load_hudi_defaults()["hoodie.write.table.version"].in_1_2 == "9"
    assert load_hudi_defaults()["hoodie.write.auto.upgrade"].in_1_2 == "true"
    assert known["hoodie.auto.commit"].default is True
    assert "1.x" not in find_hudi_key("hoodie.auto.commit").versions  # type: ignore[union-attr]
    assert known["hoodie.index.type"].default == "SIMPLE"
    for key in ("hoodie.clean.automatic", "hoodie.archive.automatic"):
        assert known[key].default is True
        assert find_hudi_key(key).key_class is KeyClass.USED  # type: ignore[union-attr]


def test_a_new_table_is_as_the_page_says(tmp_path: Path) -> None:
    for fields, payload in (("ts", "DefaultHoodieRecordPayload"), ("", "OverwriteWithLatestAvroPayload")):
        path = str(tmp_path / payload)
        HoodieTableMetaClient.init_table(
            path, table_name="trips", record_key_fields="id", ordering_fields=[fields] if fields else []
        )
        properties = HoodieTableMetaClient.load(path).table_config.properties
        mode = "EVENT_TIME_ORDERING" if fields else "COMMIT_TIME_ORDERING"
        assert properties["hoodie.record.merge.mode"] == mode
        version_6 = HoodieTableMetaClient.init_table(
            f"{path}_6",
            table_name="trips",
            record_key_fields="id",
            ordering_fields=[fields] if fields else [],
            table_version=6,
        )
        assert version_6.table_config.properties["hoodie.compaction.payload.class"].endswith(payload)
        assert properties["hoodie.table.timeline.timezone"] == "UTC"


def test_the_local_programs_of_the_page_run(tmp_path: Path) -> None:
    programs = re.findall(r"<!-- tested -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(programs) == 2
    names: dict[str, object] = {"base_path": str(tmp_path / "trips")}
    for program in programs:
        exec(program, names)
    assert isinstance(names["table"], pa.Table)
    assert names["table"].num_rows == 2
    assert len(HoodieTableMetaClient.load(str(tmp_path / "trips")).active_timeline.filter_completed_instants()) == 2


def test_a_pasted_configuration_of_the_data_source_is_taken(tmp_path: Path) -> None:
    pasted = dict(re.findall(r'option\("([^"]+)", "([^"]+)"\)', PAGE.split("```scala")[1].split("```")[0]))
    assert len(pasted) == 5
    assert HoodieWriteConfig.from_properties(str(tmp_path), pasted).table.table_name == "trips"
