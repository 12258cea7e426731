from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from hoodie.exception import HoodieConfigException
from hoodie.storage.storage_factory import open_storage
from hoodie.utilities.config.streamer_properties import StreamerProperties, parse_dfs_properties, spellings
from hoodie.utilities.config.streamer_run_config import HoodieStreamerConfig


def parsed(folder: Path, name: str = "a.properties") -> dict[str, str]:
    return parse_dfs_properties(open_storage(str(folder)), str(folder / name))


def test_a_file_of_properties_is_read_as_hudi_reads_one(tmp_path: Path) -> None:
    (tmp_path / "a.properties").write_text(
        "# a comment\n\n  key = a   b=c  \nwithout equals\nalone\nescaped=\\u0041\\\nnext=1\nkey2=#no comment\n"
    )
    assert parsed(tmp_path) == {
        "key": "a b=c", "without": "equals", "escaped": "\\u0041\\", "next": "1", "key2": "#no comment",
    }  # fmt: skip


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    (tmp_path / "a.properties").write_text("key=ä\n", encoding="utf-8-sig")
    assert parsed(tmp_path) == {"key": "ä"}


def test_an_included_file_lies_beside_and_later_lines_win(tmp_path: Path) -> None:
    (tmp_path / "a.properties").write_text("x=1\ninclude=sub/b.properties\ny=3\ninclude=missing.properties\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.properties").write_text(f"x=2\ny=2\ninclude={tmp_path}/c.properties\n")
    (tmp_path / "c.properties").write_text("z=4\n")
    assert parsed(tmp_path) == {"x": "2", "y": "3", "z": "4"}


def test_files_that_include_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.properties").write_text("include=b.properties\n")
    (tmp_path / "b.properties").write_text("include=a.properties\n")
    with pytest.raises(HoodieConfigException, match="include each other"):
        parsed(tmp_path)


def test_both_spellings_of_a_key_are_one_property() -> None:
    properties = StreamerProperties({"hoodie.deltastreamer.source.dfs.root": "/in"})
    assert properties["hoodie.streamer.source.dfs.root"] == "/in"
    assert properties.get("hoodie.streamer.source.other") is None
    assert spellings("bootstrap.servers") == ("bootstrap.servers",)


def test_properties_that_win_hide_both_spellings() -> None:
    properties = StreamerProperties({"hoodie.deltastreamer.source.dfs.root": "/old", "kept": "1"})
    assert properties.with_({"hoodie.streamer.source.dfs.root": "/new"}).given == {
        "kept": "1", "hoodie.streamer.source.dfs.root": "/new",
    }  # fmt: skip
    newer = StreamerProperties({"hoodie.streamer.source.dfs.root": "/old"})
    assert newer.with_({"hoodie.deltastreamer.source.dfs.root": "/new"})["hoodie.streamer.source.dfs.root"] == "/new"


def test_two_spellings_with_two_values_are_refused() -> None:
    properties = StreamerProperties(
        {"hoodie.streamer.checkpoint.force.skip": "true", "hoodie.deltastreamer.checkpoint.force.skip": "false"}
    )
    with pytest.raises(HoodieConfigException, match="mean the same property: give one of them"):
        properties.read(HoodieStreamerConfig)


def test_a_group_reads_the_old_spelling_too() -> None:
    properties = StreamerProperties({"hoodie.deltastreamer.checkpoint.force.skip": "true"})
    assert properties.read(HoodieStreamerConfig).checkpoint_force_skip is True


def test_options_under_a_prefix_are_those_of_both_spellings() -> None:
    properties = StreamerProperties({"hoodie.deltastreamer.csv.sep": ";", "hoodie.streamer.csv.header": "true"})
    assert properties.under("hoodie.streamer.csv.") == {"sep": ";", "header": "true"}


def test_secrets_are_not_shown_and_properties_can_be_sent_to_tasks() -> None:
    properties = StreamerProperties.of({"sasl.password": "hidden", "limit": 5, "on": True})
    assert "hidden" not in repr(properties)
    assert pickle.loads(pickle.dumps(properties)).given == {"sasl.password": "hidden", "limit": "5", "on": "true"}
