"""Tables are made in free folders only, and taken back only where nobody uses them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.common.table.table_folder import NewTable, other_files_in
from hoodie.exception import HoodieConfigException, HoodieIOException, TableExistsException
from hoodie.storage.local_storage import LocalStorage
from hoodie.storage.storage_factory import open_storage
from hoodie.storage.storage_path import join
from tests.support.hookable_storage import hooked

DATA = pa.table({"k": ["a", "b"], "ts": [1, 2]})
OTHERS = pa.table({"k": ["c", "d"], "ts": [1, 2]})
OPTION = "hoodie.table.create.allow.other.files"


def put(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    return folder


def names_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def init(base_path: Path | str, **given: Any) -> HoodieTableMetaClient:
    return HoodieTableMetaClient.init_table(str(base_path), table_name="t", record_key_fields="k", **given)


DELTA = ("_delta_log/00000000000000000000.json", "part-00000-x.snappy.parquet")
ICEBERG = ("data/00000-0-x.parquet", "metadata/v1.metadata.json", "metadata/snap-1.avro")


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (DELTA, r"a Delta table \(_delta_log\)"),
        (DELTA[:1], r"a Delta table \(_delta_log\)"),
        (ICEBERG, r"an Iceberg table \(metadata/v1\.metadata\.json\)"),
        (ICEBERG[1:], r"an Iceberg table \(metadata/v1\.metadata\.json\)"),
        (("part-0.parquet",), r"files of somebody else \(part-0\.parquet\)"),
        (("x/y/z", "notes.txt"), r"files of somebody else \(notes\.txt, x/y/z\)"),
        (("a", "b", "c", "d", "_SUCCESS"), r"files of somebody else \(a, b, c, \.\.\.\)"),
        (("metadata/readme.md",), r"files of somebody else \(metadata/readme\.md\)"),
    ],
)
def test_no_table_is_made_in_a_folder_that_holds_something_else(
    tmp_path: Path, names: tuple[str, ...], found: str
) -> None:
    folder = put(tmp_path / "t", *names)
    before = names_in(folder)
    message = f"no table was created at {folder}, because the folder holds {found}: check the path.*give {OPTION}=true"
    with pytest.raises(HoodieConfigException, match=message):
        init(folder)
    with pytest.raises(HoodieConfigException, match=message):
        hoodie.write_table(DATA, str(folder), record_key_fields="k")
    assert names_in(folder) == before


@pytest.mark.parametrize("names", [(), ("_SUCCESS", "_temporary/0/x", ".DS_Store", ".git/config")])
def test_hidden_names_and_empty_folders_are_no_obstacle(tmp_path: Path, names: tuple[str, ...]) -> None:
    folder = put(tmp_path / "t", *names)
    (folder / "empty" / "too").mkdir(parents=True)
    hoodie.write_table(DATA, str(folder), record_key_fields="k")
    assert hoodie.read_table(str(folder)).num_rows == 2


def test_an_option_allows_other_files(tmp_path: Path) -> None:
    for name, files in (("delta", DELTA), ("iceberg", ICEBERG), ("other", ("x.csv",))):
        folder = put(tmp_path / name, *files)
        hoodie.write_table(DATA, str(folder), record_key_fields="k", properties={OPTION: "true"})
        assert hoodie.read_table(str(folder)).num_rows == 2
        assert set(files) <= names_in(folder)
    assert init(put(tmp_path / "made", "x.csv"), allow_other_files=True).table_config.table_name == "t"


def test_a_table_that_is_there_may_have_other_files_beside_it(tmp_path: Path) -> None:
    folder = str(tmp_path / "t")
    hoodie.write_table(DATA, folder, record_key_fields="k")
    put(tmp_path / "t", "README.md", *DELTA)
    hoodie.write_table(DATA, folder)
    assert hoodie.read_table(folder).num_rows == 2


def test_a_table_that_another_writer_makes_meanwhile_is_named_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = LocalStorage.sample_files

    def after_another_writer(storage: LocalStorage, path: str, limit: int) -> list[str]:
        monkeypatch.setattr(LocalStorage, "sample_files", sample)
        hoodie.write_table(DATA, str(tmp_path / "t"), record_key_fields="k")
        return sample(storage, path, limit)

    monkeypatch.setattr(LocalStorage, "sample_files", after_another_writer)
    with pytest.raises(TableExistsException, match="There already is a Hudi table at"):
        init(tmp_path / "t")
    assert hoodie.read_table(str(tmp_path / "t")).num_rows == 2


class CountingStorage(LocalStorage):
    """Notes how many files it was asked for."""

    __slots__ = ()
    asked: ClassVar[list[int]] = []

    def list_files(self, path: str) -> list[Any]:
        raise AssertionError("the whole folder is listed")

    def list_directory(self, path: str) -> list[Any]:
        raise AssertionError("the whole folder is listed")

    def list_names(self, path: str) -> list[str]:
        raise AssertionError("the whole folder is listed")

    def sample_files(self, path: str, limit: int) -> list[str]:
        found = super().sample_files(path, limit)
        self.asked.append(len(found))
        return found


def test_a_folder_of_many_files_is_not_listed_whole(tmp_path: Path) -> None:
    folder = put(tmp_path / "t", *(f"{number:04}.csv" for number in range(1500)), *DELTA[:1])
    assert other_files_in(CountingStorage(str(folder)), str(folder)) == "a Delta table (_delta_log)"
    assert max(CountingStorage.asked) <= 1000


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (DELTA[:1], "a Delta table (_delta_log)"),
        (ICEBERG, "an Iceberg table (metadata/v1.metadata.json)"),
        (("sf/part-0.parquet", "x.csv"), "files of somebody else (sf/part-0.parquet, x.csv)"),
        ((), None),
    ],
)
def test_other_files_are_found_behind_many_that_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], found: str | None
) -> None:
    """A listing in order of names, as object stores give it, holds nothing but those of a stream's checkpoint."""
    folder = put(tmp_path / "t", *(f"_checkpoint/{number:04}" for number in range(1100)), *names)
    (folder / "empty").mkdir()

    def in_order(storage: LocalStorage, path: str, limit: int) -> list[str]:
        return [file.path for file in storage.list_files(path)[:limit]]

    monkeypatch.setattr(LocalStorage, "sample_files", in_order)
    assert other_files_in(LocalStorage(str(folder)), str(folder)) == found


def test_the_folder_in_memory_is_looked_at_too() -> None:
    storage = open_storage("memory://occupied")
    storage.create_if_absent("memory://occupied/x/part-0.parquet", b"x")
    with pytest.raises(HoodieConfigException, match=r"files of somebody else \(x/part-0\.parquet\)"):
        init("memory://occupied")
    assert [child.name for child in storage.list_directory("memory://occupied")] == ["x"]


def test_properties_that_were_lost_are_told_before_other_files(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    hoodie.write_table(DATA, str(folder), record_key_fields="k")
    (folder / ".hoodie" / "hoodie.properties").unlink()
    with pytest.raises(hoodie.InvalidTableException, match="it was lost"):
        init(folder)
    with pytest.raises(hoodie.InvalidTableException, match="it was lost"):
        hoodie.write_table(DATA, str(folder), record_key_fields="k")
    assert len([file for file in (folder / ".hoodie").rglob("*.commit") if file.is_file()]) == 1


def test_a_file_that_stands_at_the_path_is_no_folder(tmp_path: Path) -> None:
    put(tmp_path, "t")
    with pytest.raises(hoodie.HoodieIOException, match=join(str(tmp_path), "t")):
        init(tmp_path / "t")


@pytest.mark.parametrize("folder_is_new", [False, True])
def test_a_table_that_nobody_used_is_taken_back_with_its_lock_files(tmp_path: Path, folder_is_new: bool) -> None:
    folder = tmp_path / "t"
    made = init(folder)
    new = NewTable(
        made.storage, made.base_path, made.table_config.properties, folder_is_new=folder_is_new, is_created=True
    )
    put(folder / ".hoodie" / ".locks", "single_writer.lock", "single_writer.lock.queue")
    assert new.take_back()
    assert folder.exists() != folder_is_new
    assert not (folder / ".hoodie").exists()


@pytest.mark.table_version(9)
@pytest.mark.parametrize(
    "name",
    [
        "timeline/20260101000000000.commit.requested",
        "timeline/20260101000000000_20260101000000001.commit",
        ".heartbeat/20260101000000000",
        "lock",
    ],
)
def test_a_table_that_somebody_uses_is_not_taken_back(tmp_path: Path, name: str) -> None:
    made = init(tmp_path / "t")
    new = NewTable(made.storage, made.base_path, made.table_config.properties, folder_is_new=True, is_created=True)
    put(tmp_path / "t" / ".hoodie", name)
    before = names_in(tmp_path)
    assert not new.take_back()
    assert names_in(tmp_path) == before
    assert HoodieTableMetaClient.load(made.base_path).table_config == made.table_config


def test_files_of_somebody_else_stay_where_a_table_is_taken_back(tmp_path: Path) -> None:
    folder = put(tmp_path / "t", "notes.txt", "x/notes.txt", "_checkpoint/0", ".git/config")
    before = names_in(folder)
    made = init(folder, allow_other_files=True)
    new = NewTable(made.storage, made.base_path, made.table_config.properties, folder_is_new=False, is_created=True)
    put(folder, "y/.hoodie_partition_metadata", "x/.hoodie_partition_metadata")
    assert new.take_back()
    # That file says nothing without a table.
    assert names_in(folder) == {*before, "x/.hoodie_partition_metadata"}


def test_a_table_whose_properties_were_changed_is_not_taken_back(tmp_path: Path) -> None:
    made = init(tmp_path / "t")
    new = NewTable(made.storage, made.base_path, made.table_config.properties, folder_is_new=True, is_created=True)
    made.table_config.update(made.storage, made.base_path, {"hoodie.table.timeline.timezone": "LOCAL"})
    assert not new.take_back()
    assert HoodieTableMetaClient.load(made.base_path).table_config.timeline_timezone == "LOCAL"


@pytest.mark.parametrize("at", ["a folder", "the properties"])
def test_a_table_of_another_process_with_the_same_properties_is_not_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """It was made while this process failed to make its own: nothing of it is this one's."""
    folder = tmp_path / "t"
    model = init(tmp_path / "model")
    storage = open_storage(str(folder))
    ours, theirs = (NewTable(storage, str(folder), model.table_config.properties, folder_is_new=True) for _ in "ab")

    def fails_after_another(storage: LocalStorage, path: str, *arguments: object) -> bool:
        monkeypatch.undo()
        time.sleep(0.002)
        theirs.create()
        raise HoodieIOException("no space")

    name = "create_directory" if at == "a folder" else "create_if_absent"
    monkeypatch.setattr(LocalStorage, name, fails_after_another)
    with pytest.raises(HoodieIOException, match="no space"):
        ours.create()
    assert not ours.take_back()
    assert HoodieTableMetaClient.load(str(folder)).table_config.table_name == model.table_config.table_name
    assert theirs.take_back()
    assert not folder.exists()


def test_a_table_that_another_writer_makes_while_one_is_taken_back_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "t"
    made = init(folder)
    new = NewTable(made.storage, made.base_path, made.table_config.properties, folder_is_new=True, is_created=True)
    delete_empty = LocalStorage.delete_empty_directory

    def after_another_writer(storage: LocalStorage, path: str) -> bool:
        monkeypatch.setattr(LocalStorage, "delete_empty_directory", delete_empty)
        hoodie.write_table(DATA, str(folder), record_key_fields="k")
        return delete_empty(storage, path)

    monkeypatch.setattr(LocalStorage, "delete_empty_directory", after_another_writer)
    new.take_back()
    assert hoodie.read_table(str(folder)).num_rows == 2
    hoodie.write_table(DATA, str(folder))


@pytest.mark.parametrize("failing", ["delete", "list"])
@pytest.mark.parametrize("error", [HoodieIOException("the network is gone"), KeyboardInterrupt()])
def test_properties_are_put_back_where_nobody_knows_whether_the_table_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, error: BaseException
) -> None:
    """Another writer commits right before the properties are deleted, and then the storage fails."""
    folder = tmp_path / "t"
    made = init(folder)
    properties = folder / ".hoodie" / "hoodie.properties"

    def meanwhile(name: str, path: str) -> None:
        if name == "delete" and path == str(properties):
            hoodie.write_table(DATA, str(folder))
            if failing == "delete":
                # The answer is lost, not the request.
                properties.unlink()
                raise error
        elif name == "list" and not properties.exists():
            raise error

    with hooked(monkeypatch, meanwhile):
        new = NewTable(
            open_storage(made.base_path),
            made.base_path,
            made.table_config.properties,
            folder_is_new=True,
            is_created=True,
        )
        with pytest.raises(type(error)):
            new.take_back()
    assert hoodie.read_table(str(folder)).num_rows == 2


@pytest.mark.parametrize("moment", [1, 2])
def test_a_table_that_another_writer_makes_meanwhile_has_not_lost_its_properties(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """The other one works right before the first, or second, look for commits without properties.

    Its table is written to.
    """
    folder = str(tmp_path / "t")
    looks: list[str] = []

    def meanwhile(name: str, path: str) -> None:
        if (name, path) == ("list", f"{folder}/.hoodie"):
            looks.append(path)
            if len(looks) == moment:
                hoodie.write_table(OTHERS, folder, record_key_fields="k")

    with hooked(monkeypatch, meanwhile):
        hoodie.write_table(DATA, folder, record_key_fields="k")
    assert len(looks) >= moment
    assert hoodie.read_table(folder).num_rows == 4
