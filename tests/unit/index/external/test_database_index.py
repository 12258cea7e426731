"""Keys in a database: what it claims, what is believed of it, and how it keeps up with the table."""

from __future__ import annotations

import copy
import logging
import pickle
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieWriteConfig
from hoodie.common.model.record_columns import RECORD_KEY
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieConfigException, HoodieIndexException, HoodieUpsertException
from hoodie.index.external import external_index
from hoodie.index.external.database_index import HoodieDatabaseIndex
from hoodie.index.external.database_url import is_postgresql, sqlite_path
from hoodie.index.external.location_store import KnownFile, LocationStore, claimed_keys
from hoodie.index.index_report import Decision
from hoodie.index.simple import global_simple_index
from hoodie.table.action.commit import incoming_keys
from tests.support.postgres_server import PASSWORD
from tests.support.table_builder import SMALL_FILTERS, init_table, local_client, read_placed_trips, rows

INDEX = "hoodie.index.external.database_index.HoodieDatabaseIndex"
Rows = list[tuple[Any, ...]]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database of each kind."""
    if request.param == "sqlite":
        yield f"sqlite://{tmp_path}/some/folder/keys.sqlite"
        return
    server = request.getfixturevalue("postgres_url")
    schema = f"s{uuid.uuid4().hex}"
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    yield f"{server}&options=-csearch_path%3D{schema}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


def config(path: Path, url: str | None, **properties: Any) -> HoodieWriteConfig:
    given_properties = {"hoodie.index.class": INDEX, **SMALL_FILTERS, **properties}
    if url is not None:
        given_properties["hoodie.index.database.url"] = url
    return HoodieWriteConfig.from_properties(str(path), given_properties)


def make_client(path: Path, url: str | None, **properties: Any) -> HoodieLocalWriteClient:
    return HoodieLocalWriteClient(config(path, url, **properties))


def other_client(path: Path) -> HoodieLocalWriteClient:
    """A writer that knows nothing of the database."""
    return local_client(path, {"hoodie.index.type": "GLOBAL_SIMPLE", **SMALL_FILTERS})


def open_store(path: Path, url: str | None) -> LocationStore:
    store = HoodieDatabaseIndex(config(path, url)).store_factory().open()
    store.create()
    return store


def claims(path: Path, url: str | None, *keys: str) -> dict[str, list[str]]:
    """Key -> the partitions that the database claims it for."""
    with open_store(path, url) as store:
        partitions = {group.number: group.partition_path for group in store.groups()}
        listed = claimed_keys(pa.array(keys))
        found: dict[str, list[str]] = {key: [] for key in listed}
        for place, number in zip(*store.find(listed), strict=True):
            found[listed[place]].append(partitions[number])
    return {key: sorted(paths) for key, paths in found.items()}


@pytest.fixture(params=["keys at hand", "too many keys"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to look keys up: on the driver, and by tasks with a join."""
    if request.param == "too many keys":
        monkeypatch.setattr(incoming_keys, "KEY_BYTES", 0)
        monkeypatch.setattr(global_simple_index, "SHARED_KEY_BYTES", 0)


def test_a_key_is_found_wherever_it_lives_and_moves_there(tmp_path: Path, url: str, way: None) -> None:
    init_table(tmp_path / "t")
    with make_client(tmp_path / "t", url) as client:
        client.upsert(rows(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
        result = client.upsert(rows(("a", "y", 2, 2.0), ("b", "x", 2, 2.0), ("c", "y", 1, 3.0)))
        assert (result.inserted_count, result.updated_count, result.deleted_count) == (2, 1, 1)
        client.upsert(rows(("a", "y", 3, 3.0)))
    assert read_placed_trips(tmp_path / "t") == [
        ("a", "y", 3, 3.0, "y"),
        ("b", "x", 2, 2.0, "x"),
        ("c", "y", 1, 3.0, "y"),
    ]


def test_a_key_stays_where_it_is_when_that_is_asked_for(tmp_path: Path, url: str) -> None:
    init_table(tmp_path / "t")
    with make_client(tmp_path / "t", url, **{"hoodie.index.database.update.partition.path": False}) as client:
        client.upsert(rows(("a", "x", 1, 1.0)))
        client.upsert(rows(("a", "y", 2, 2.0)))
    assert read_placed_trips(tmp_path / "t") == [("a", "y", 2, 2.0, "x")]


def test_only_the_files_that_are_claimed_are_read(tmp_path: Path, url: str) -> None:
    init_table(tmp_path / "t")
    with make_client(tmp_path / "t", url) as client:
        client.upsert(rows(*((f"k{region}", region, 1, 1.0) for region in "uvwxyz")))
        seen = []
        found = HoodieDatabaseIndex.find_locations

        def spy(self: Any, keys: Any, context: Any, table: Any) -> Any:
            locations = found(self, keys, context, table)
            seen.append(table.work.report())
            return locations

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(HoodieDatabaseIndex, "find_locations", spy)
            client.upsert(rows(("kw", "w", 2, 2.0), ("new", "x", 1, 1.0)))
    assert seen[0].files_read == 1
    assert seen[0].decided == {Decision.DATABASE: 5, Decision.KEY_CHECK: 1}


def test_deleted_keys_are_taken_out_at_the_next_write(tmp_path: Path, url: str) -> None:
    init_table(tmp_path / "t")
    with make_client(tmp_path / "t", url) as client:
        client.upsert(rows(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
        client.delete([HoodieKey("a", "x")])
        assert client.delete([HoodieKey("a", "x")]).deleted_count == 0
        assert claims(tmp_path / "t", url, "a", "b") == {"a": [], "b": ["x"]}
        assert client.upsert(rows(("a", "x", 1, 1.0))).inserted_count == 1
        assert client.upsert(rows(("a", "x", 2, 1.0))).updated_count == 1


def test_what_another_writer_wrote_is_caught_up_loudly(
    tmp_path: Path, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    init_table(tmp_path / "t")
    with make_client(tmp_path / "t", url) as client:
        client.upsert(rows(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
        with other_client(tmp_path / "t") as other:
            other.upsert(rows(("c", "x", 1, 1.0), ("d", "z", 1, 1.0)))
            other.delete([HoodieKey("a", "x")])
        with caplog.at_level(logging.WARNING, "hoodie.index.external"):
            result = client.upsert(rows(("a", "y", 2, 2.0), ("c", "x", 2, 2.0), ("d", "y", 2, 2.0)))
        assert "does not know 2 of its 3 base files, which were written without it" in caplog.text
        assert (result.inserted_count, result.updated_count, result.deleted_count) == (2, 1, 1)
        caplog.clear()
        client.upsert(rows(("b", "y", 3, 3.0)))
        assert "does not know" not in caplog.text
    assert [row[0] for row in read_placed_trips(tmp_path / "t")] == ["a", "b", "c", "d"]


def test_inserts_and_bulk_inserts_are_taken_note_of(tmp_path: Path, url: str, caplog: pytest.LogCaptureFixture) -> None:
    init_table(tmp_path / "t")
    with make_client(tmp_path / "t", url) as client:
        client.bulk_insert(rows(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
        client.insert(rows(("c", "x", 1, 1.0)))
        with caplog.at_level(logging.WARNING, "hoodie.index.external"):
            assert client.upsert(rows(("a", "x", 2, 1.0), ("b", "y", 2, 1.0), ("c", "x", 2, 1.0))).updated_count == 3
        assert caplog.text == ""


def test_an_index_on_a_table_that_is_there_is_built_from_its_files(tmp_path: Path, url: str) -> None:
    init_table(tmp_path / "t")
    with other_client(tmp_path / "t") as other:
        other.upsert(rows(*((f"k{number}", f"p{number % 7}", 1, 1.0) for number in range(70))))
    with make_client(tmp_path / "t", url) as client:
        result = client.upsert(rows(*((f"k{number}", f"p{number % 7}", 2, 1.0) for number in range(60, 80))))
    assert (result.updated_count, result.inserted_count) == (10, 10)


def test_an_instant_that_was_written_and_never_completed_is_not_believed(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    init_table(tmp_path / "t")
    with make_client(tmp_path / "t", url) as client:
        client.upsert(rows(("a", "x", 1, 1.0), ("gone", "x", 1, 1.0)))
    dying = make_client(tmp_path / "t", url)
    with monkeypatch.context() as patch:
        patch.setattr(HoodieActiveTimeline, "save_as_complete", _die)
        patch.setattr(HoodieLocalWriteClient, "_try_rollback", lambda *arguments: None)
        with pytest.raises(KeyboardInterrupt):
            dying.upsert(rows(("b", "x", 1, 1.0), ("c", "z", 1, 1.0), ("gone", "y", 2, 1.0)))
    assert claims(tmp_path / "t", url, "b", "c", "gone") == {"b": ["x"], "c": ["z"], "gone": ["x", "y"]}
    with make_client(tmp_path / "t", url) as client:
        result = client.upsert(rows(("b", "y", 1, 1.0), ("gone", "x", 3, 3.0)))
        assert (result.inserted_count, result.updated_count) == (1, 1)
        assert claims(tmp_path / "t", url, "b", "c", "gone") == {"b": ["y"], "c": [], "gone": ["x"]}
    assert read_placed_trips(tmp_path / "t") == [
        ("a", "x", 1, 1.0, "x"),
        ("b", "y", 1, 1.0, "y"),
        ("gone", "x", 3, 3.0, "x"),
    ]


def _die(*arguments: Any, **options: Any) -> None:
    raise KeyboardInterrupt


def test_a_commit_that_was_rolled_back_is_forgotten_whoever_did_it(tmp_path: Path, url: str) -> None:
    init_table(tmp_path / "t")
    for roll_back in (make_client(tmp_path / "t", url), other_client(tmp_path / "t")):
        with make_client(tmp_path / "t", url) as client:
            client.upsert(rows(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
            client.upsert(rows(("a", "y", 2, 2.0)))
            last = client.upsert(rows(("b", "y", 2, 2.0), ("c", "x", 1, 1.0))).instant_time
            with roll_back:
                assert roll_back.rollback(last)
            assert client.upsert(rows(("b", "x", 3, 3.0), ("c", "y", 3, 3.0))).updated_count == 1
            assert read_placed_trips(tmp_path / "t") == [
                ("a", "y", 2, 2.0, "y"),
                ("b", "x", 3, 3.0, "x"),
                ("c", "y", 3, 3.0, "y"),
            ]
            assert claims(tmp_path / "t", url, "b", "c") == {"b": ["x"], "c": ["y"]}
            client.delete([HoodieKey("a", "y"), HoodieKey("b", "x"), HoodieKey("c", "y")])


def test_a_database_that_was_lost_is_built_again(tmp_path: Path) -> None:
    init_table(tmp_path / "t")
    with make_client(tmp_path / "t", None) as client:
        client.upsert(rows(("a", "x", 1, 1.0)))
    assert (tmp_path / "t" / ".hoodie" / ".index" / "keys.sqlite").exists()
    shutil.rmtree(tmp_path / "t" / ".hoodie" / ".index")
    with make_client(tmp_path / "t", None) as client:
        assert client.upsert(rows(("a", "y", 2, 2.0))).deleted_count == 1


def test_a_database_that_is_lost_while_a_client_lives_is_built_again(tmp_path: Path) -> None:
    init_table(tmp_path / "t")
    with make_client(tmp_path / "t", None) as client:
        client.upsert(rows(("a", "x", 1, 1.0)))
        shutil.rmtree(tmp_path / "t" / ".hoodie" / ".index")
        assert client.upsert(rows(("a", "y", 2, 2.0))).deleted_count == 1


def test_a_database_that_is_older_than_the_table_is_caught_up(tmp_path: Path) -> None:
    init_table(tmp_path / "t")
    with make_client(tmp_path / "t", None) as client:
        client.upsert(rows(("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
    shutil.copytree(tmp_path / "t" / ".hoodie" / ".index", tmp_path / "kept")
    with make_client(tmp_path / "t", None) as client:
        client.upsert(rows(("a", "y", 2, 2.0), ("c", "x", 1, 1.0)))
    shutil.rmtree(tmp_path / "t" / ".hoodie" / ".index")
    shutil.copytree(tmp_path / "kept", tmp_path / "t" / ".hoodie" / ".index")
    with make_client(tmp_path / "t", None) as client:
        client.upsert(rows(("a", "x", 3, 3.0), ("c", "y", 3, 3.0)))
    assert [row[0] for row in read_placed_trips(tmp_path / "t")] == ["a", "b", "c"]


def test_two_tables_share_a_database(tmp_path: Path, url: str) -> None:
    for name in ("one", "two"):
        init_table(tmp_path / name)
    with make_client(tmp_path / "one", url) as one, make_client(tmp_path / "two", url) as two:
        one.upsert(rows(("a", "x", 1, 1.0)))
        two.upsert(rows(("a", "x", 1, 1.0)))
        assert one.upsert(rows(("a", "y", 2, 2.0))).deleted_count == 1
        assert two.upsert(rows(("a", "x", 2, 2.0))).updated_count == 1


def test_keys_of_all_shapes_are_found(tmp_path: Path, url: str) -> None:
    keys = ["a" * 10_000, "a" * 10_001, "ä€😀", "x\0y", "x\0z", "'; --", "\u00e9", "e\u0301", " ", "\\", "1"]
    init_table(tmp_path / "t")
    with make_client(tmp_path / "t", url) as client:
        client.upsert(rows(*((key, "x", 1, 1.0) for key in keys)))
        assert client.upsert(rows(*((key, "x", 2, 1.0) for key in keys))).updated_count == len(keys)
        assert client.upsert(rows(*((key, "y", 3, 1.0) for key in keys))).deleted_count == len(keys)


def test_a_stage_that_runs_twice_leaves_the_same(tmp_path: Path, url: str) -> None:
    init_table(tmp_path / "t")
    done = HoodieDatabaseIndex.update_location

    def twice(self: Any, statuses: Any, context: Any, table: Any) -> None:
        done(self, statuses, context, table)
        done(self, statuses, context, table)

    with pytest.MonkeyPatch.context() as patch, make_client(tmp_path / "t", url) as client:
        patch.setattr(HoodieDatabaseIndex, "update_location", twice)
        client.upsert(rows(("a", "x", 1, 1.0)))
        client.upsert(rows(("a", "y", 2, 1.0), ("b", "x", 1, 1.0)))
        assert client.upsert(rows(("a", "y", 3, 1.0), ("b", "x", 3, 1.0))).updated_count == 2
    assert claims(tmp_path / "t", url, "a", "b") == {"a": ["y"], "b": ["x"]}


def test_a_group_that_lost_keys_meanwhile_is_not_taken_for_known(tmp_path: Path, url: str) -> None:
    with open_store(tmp_path / "t", url) as mine, open_store(tmp_path / "t", url) as other:
        group = mine.add_groups([("p", "f")], "1")["p", "f"]
        mine.add_keys(group.number, ["a", "b"])
        assert mine.know(group, KnownFile("f_1", "1"))
        group = mine.add_groups([("p", "f")], "2")["p", "f"]
        assert set(group.files) == {"f_1"}
        mine.add_keys(group.number, ["b", "c"])
        other.remove_keys(group.number, ["b"], "f_1")
        assert not mine.know(group, KnownFile("f_2", "2"))
        other.drop_groups([group.number])
        again = mine.add_groups([("p", "f")], "2")["p", "f"]
        assert again.number != group.number
        assert mine.find(["a", "b", "c"])[0].tolist() == []
        assert not mine.know(group, KnownFile("f_2", "2"))


def test_a_pending_write_of_another_client_is_left_alone(tmp_path: Path, url: str) -> None:
    init_table(tmp_path / "t")
    with open_store(tmp_path / "t", url) as store:
        group = store.add_groups([("x", "pending-0")], "29991231000000000")["x", "pending-0"]
        store.add_keys(group.number, ["p"])
        with make_client(tmp_path / "t", url) as client:
            client.upsert(rows(("a", "x", 1, 1.0)))
            client.upsert(rows(("p", "x", 1, 1.0)))
        assert store.know(group, KnownFile("f", "29991231000000000"))


ENTRIES = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("xyz"), min_size=1, max_size=4)
KINDS = st.sampled_from(["upsert", "upsert", "other", "delete", "rollback", "new client", "die"])
OPERATIONS = st.lists(st.tuples(KINDS, ENTRIES.map(lambda entries: list(entries.items()))), min_size=2, max_size=7)


@pytest.mark.slow
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=OPERATIONS)
def test_the_table_is_as_a_dict_whatever_happens(tmp_path: Path, url: str, operations: Any) -> None:
    path = tmp_path / uuid.uuid4().hex
    init_table(path)
    model: dict[str, tuple[Any, ...]] = {}
    states: list[tuple[str, dict[str, tuple[Any, ...]]]] = []
    client = make_client(path, url)
    for number, (operation, entries) in enumerate(operations, 1):
        before = copy.copy(model)
        data = rows(*((key, region, number, float(number)) for key, region in entries))
        if operation in ("upsert", "other"):
            writer = client if operation == "upsert" else other_client(path)
            instant_time = writer.upsert(data).instant_time
            model.update({key: (key, region, number, float(number), region) for key, region in entries})
        elif operation == "delete":
            deleted = client.delete([HoodieKey(key, region) for key, region in entries])
            if not deleted.is_committed:
                # Nothing was ever written, so there is no commit to roll back.
                assert not states
                continue
            instant_time = deleted.instant_time
            for key, _ in entries:
                model.pop(key, None)
        elif operation == "rollback":
            if states:
                instant_time, model = states.pop()
                assert client.rollback(instant_time)
            continue
        elif operation == "die":
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(HoodieActiveTimeline, "save_as_complete", _die)
                patch.setattr(HoodieLocalWriteClient, "_try_rollback", lambda *arguments: None)
                with pytest.raises(KeyboardInterrupt):
                    client.upsert(data)
            client = make_client(path, url)
            # A rollback of what is before it would need that failed write to be gone first.
            client.rollback_failed_writes()
            continue
        else:
            client = make_client(path, url)
            continue
        states.append((instant_time, before))
        assert read_placed_trips(path) == sorted(model.values())
    client.upsert(rows(*((key, "x", 99, 9.0) for key in "abcdef")))
    assert read_placed_trips(path) == [(key, "x", 99, 9.0, "x") for key in "abcdef"]


def test_passwords_are_not_shown(tmp_path: Path, postgres_url: str) -> None:
    assert PASSWORD in postgres_url
    init_table(tmp_path / "t")
    wrong = postgres_url.replace("/postgres?", "/nothing?")
    given_config = config(tmp_path / "t", wrong)
    client = HoodieLocalWriteClient(given_config)
    with pytest.raises(HoodieIndexException, match="hoodie:\\*\\*\\*@/nothing") as caught:
        client.upsert(rows(("a", "x", 1, 1.0)))
    shown = [str(caught.value), repr(given_config), repr(HoodieDatabaseIndex(given_config).store_factory())]
    assert not [text for text in shown if PASSWORD in text]
    with pytest.raises(HoodieConfigException) as refused:
        config(tmp_path / "t", "postgresql://u:pa55-of-tests@h/d", **{"hoodie.index.database.table": "No!"})
    assert PASSWORD not in str(refused.value)


def test_a_failing_database_fails_the_write_and_nothing_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    init_table(tmp_path / "t")
    with make_client(tmp_path / "t", None) as client:
        client.upsert(rows(("a", "x", 1, 1.0)))
        (tmp_path / "t" / ".hoodie" / ".index" / "keys.sqlite").write_bytes(b"no database" * 1000)
    with (
        make_client(tmp_path / "t", None) as client,
        pytest.raises(HoodieIndexException, match="If the file is damaged, delete it"),
    ):
        client.upsert(rows(("a", "x", 2, 1.0)))
    assert read_placed_trips(tmp_path / "t") == [("a", "x", 1, 1.0, "x")]


@pytest.mark.parametrize(
    ("url", "base_path", "expected"),
    [
        (None, "/data/t", "/data/t/.hoodie/.index/keys.sqlite"),
        ("sqlite:///a/b c.db", "s3://bucket/t", "/a/b c.db"),
        ("sqlite:////a/b%20c.db", "s3://bucket/t", "/a/b c.db"),
        ("/a/b", "/data/t", "/a/b"),
    ],
)
def test_where_the_file_of_sqlite_is(url: str | None, base_path: str, expected: str) -> None:
    assert sqlite_path(url, base_path) == expected


@pytest.mark.parametrize(
    ("url", "base_path", "message"),
    [
        (None, "s3://bucket/t", "name a file on a local disk"),
        ("mysql://u:secret@h/d", "/t", r"mysql://u:\*\*\*@h/d is neither"),
        ("sqlite://host/x", "/t", "names a host"),
        ("sqlite://", "/t", "is neither"),
        ("sqlite://u:secret@host/x", "/t", r"sqlite://u:\*\*\*@host/x names a host"),
        ("host=db password=secret", "/t", "parameters of libpq"),
    ],
)
def test_other_urls_are_refused(url: str | None, base_path: str, message: str) -> None:
    with pytest.raises(HoodieConfigException, match=message) as caught:
        sqlite_path(url, base_path)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("password", ["se@cret", "se/cret", "@", "a/b@c"])
def test_a_password_that_libpq_would_cut_in_two_is_refused(password: str) -> None:
    with pytest.raises(HoodieConfigException, match="%40 and %2F") as caught:
        is_postgresql(f"postgresql://u:{password}@h:5432/d?sslmode=require")
    assert password not in str(caught.value).replace("an @ or a /", "")
    assert is_postgresql("postgresql://u:se%40cret@h:5432/d?options=a@b")
    assert is_postgresql("postgres://u@h:5432/d")


def test_an_upsert_of_prepped_records_that_moved_is_refused(tmp_path: Path, url: str) -> None:
    init_table(tmp_path / "t")
    with make_client(tmp_path / "t", url) as client:
        client.upsert(rows(("a", "x", 1, 1.0)))
        stored = hoodie.read_table(str(tmp_path / "t"))
        client.upsert(rows(("a", "y", 2, 1.0)))
        client.delete([HoodieKey("a", "y")])
        with pytest.raises(HoodieUpsertException):
            client.upsert_prepped_records(stored)


def test_what_crosses_to_tasks_can_be_pickled(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    init_table(tmp_path / "t")
    run_tasks = LocalEngineContext.run_tasks

    def pickled(self: Any, items: Any, function: Any) -> Any:
        if type(function).__module__ == external_index.__name__:
            items, function = pickle.loads(pickle.dumps((items, function)))
        return run_tasks(self, items, function)

    monkeypatch.setattr(LocalEngineContext, "run_tasks", pickled)
    with make_client(tmp_path / "t", url) as client:
        client.upsert(rows(("a", "x", 1, 1.0)))
        assert client.upsert(rows(("a", "y", 2, 1.0), ("b", "x", 1, 1.0))).inserted_count == 2
    factory = HoodieDatabaseIndex(config(tmp_path / "t", url)).store_factory()
    find = pickle.loads(pickle.dumps(external_index._FindGroups(factory)))
    batch = pa.record_batch([pa.array(["a", "b", "c"])], names=[RECORD_KEY])
    (found,) = list(find(TaskIdentity(0, 0, 0), iter([batch])))
    assert found.num_rows == 2
