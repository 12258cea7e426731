"""Tables on an object store, written and read in-process."""

from __future__ import annotations

import logging
import pickle
import traceback
from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hudi import HudiTableBuilder

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieReadClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.exception import HoodieException, TableExistsException, TableNotFoundException
from hoodie.storage.retry import RetryPolicy
from tests.support.model import read_model, table_of
from tests.support.object_store_servers import SECRET_KEY, Bucket, FaultyProxy, Request
from tests.support.table_builder import TRIPS, local_client

ONCE = {"hoodie.filesystem.operation.retry.enable": "false"}
Model = dict[str, tuple[str, str, int, float]]


def make(base_path: str, options: Any, **arguments: Any) -> None:
    HoodieTableMetaClient.init_table(
        base_path,
        table_name="trips",
        record_key_fields=["id"],
        partition_fields=["region"],
        ordering_fields=["ts"],
        storage_options=options,
        **arguments,
    )


def read_by_hudi_rs(bucket: Bucket, base_path: str) -> Model:
    options = {f"aws_{name}": value for name, value in bucket.options().items()} | {"aws_allow_http": "true"}
    batches = HudiTableBuilder.from_base_uri(base_path).with_options(options).build().read()
    return {
        row["id"]: tuple(row.values())
        for row in pa.table(pa.Table.from_batches(batches)).select(TRIPS.names).to_pylist()
    }


def trips(count: int, fare: float = 1.0, ts: int = 1) -> Model:
    return {f"k{n}": (f"k{n}", ("asia", "europe")[n % 2], ts, fare) for n in range(count)}


@pytest.fixture
def base_path(s3_bucket: Bucket) -> str:
    return f"s3://{s3_bucket.name}/lake/trips"


@pytest.mark.one_in(4)
def test_a_table_lives_on_s3(base_path: str, s3_bucket: Bucket) -> None:
    options = s3_bucket.options()
    with pytest.raises(TableNotFoundException):
        HoodieTableMetaClient.load(base_path, options)
    make(base_path, options)
    with pytest.raises(TableExistsException):
        make(base_path, options)
    model = trips(100)
    with local_client(base_path, storage_options=options) as c:
        assert c.insert(table_of(model)).inserted_count == 100
        change = trips(10, fare=2.0, ts=2)
        assert c.upsert(table_of(change)).updated_count == 10
        model |= change
        assert read_model(base_path, TRIPS.names, storage_options=options) == model
        c.delete([HoodieKey("k0", "asia"), HoodieKey("k1", "europe")])
        del model["k0"], model["k1"]
        with HoodieReadClient(base_path, storage_options=options) as reads:
            found = reads.check_exists([HoodieKey("k0", "asia"), HoodieKey("k2", "asia")])
            assert found["exists"].to_pylist() == [False, True]
            assert reads.read([HoodieKey("k2", "asia")], "id")["id"].to_pylist() == ["k2"]
        assert read_model(base_path, TRIPS.names, storage_options=options) == model
        mistake = c.upsert(table_of(trips(5, fare=-1.0, ts=9)))
        assert c.rollback(mistake.instant_time)
        c.bulk_insert(table_of({"n": ("n", "asia", 1, 0.0)}))
        model["n"] = ("n", "asia", 1, 0.0)
    assert read_model(base_path, TRIPS.names, storage_options=options) == model
    with hoodie.scan_table(
        base_path, columns=["id"], filters=[("region", "=", "asia")], storage_options=options
    ) as scan:
        assert {row["id"] for batch in scan for row in batch.to_pylist()} == {k for k in model if model[k][1] == "asia"}
    history = HoodieTableMetaClient.load(base_path, options).active_timeline
    assert [str(instant.action) for instant in history] == ["commit", "commit", "commit", "rollback", "commit"]
    assert not [key for key in s3_bucket.list_keys() if ".temp/" in key]
    assert s3_bucket.unfinished_uploads() == []
    assert read_by_hudi_rs(s3_bucket, base_path) == model


@pytest.mark.one_in(4)
def test_queries_of_other_times_and_datasets_read_s3(base_path: str, s3_bucket: Bucket) -> None:
    options = s3_bucket.options()
    make(base_path, options)
    before, change = trips(60), trips(10, fare=2.0, ts=2)
    with local_client(base_path, storage_options=options) as c:
        first = c.insert(table_of(before))
        c.upsert(table_of(change))
    assert read_model(base_path, TRIPS.names, storage_options=options, as_of=first.instant_time) == before
    since = {"query_type": "incremental", "begin": first.completion_time or first.instant_time}
    assert read_model(base_path, TRIPS.names, storage_options=options, **since) == change
    dataset = hoodie.dataset(base_path, storage_options=options)
    connection = duckdb.connect()
    connection.register("trips", dataset)
    assert connection.execute("select count(*), sum(fare) from trips where region = 'asia'").fetchall() == [(30, 35.0)]
    assert dataset.count_rows() == 60
    assert len(hoodie.plan_read(base_path, filters=[("id", "=", "k7")], storage_options=options).slices) == 1
    with hoodie.scan_table(base_path, storage_options=options) as reader:
        assert next(iter(reader)).num_rows


@pytest.mark.parametrize("scheme", ["s3", "s3a", "S3A"])
@pytest.mark.one_in(4)
def test_schemes_name_the_same_table(base_path: str, s3_bucket: Bucket, scheme: str) -> None:
    options = s3_bucket.options()
    hoodie.write_table(
        table_of(trips(4)), base_path, record_key_fields="id", partition_fields="region", storage_options=options
    )
    other = base_path.replace("s3://", f"{scheme}://") + "/"
    hoodie.write_table(table_of(trips(6)), other, storage_options=options)
    for path in (other, base_path):
        assert read_model(path, TRIPS.names, storage_options=options) == trips(6)


@pytest.mark.one_in(4)
def test_options_may_be_a_function(base_path: str, s3_bucket: Bucket) -> None:
    options = s3_bucket.options
    hoodie.write_table(
        table_of(trips(4)), base_path, record_key_fields="id", partition_fields="region", storage_options=options
    )
    assert read_model(base_path, TRIPS.names, storage_options=options) == trips(4)
    with local_client(base_path, storage_options=options) as c:
        c.upsert(table_of(trips(2, fare=7.0)))
    assert read_model(base_path, TRIPS.names, storage_options=options) == trips(4) | trips(2, fare=7.0)


class Ends:
    """After so many requests nothing reaches the store any more: the process that writes is gone."""

    def __init__(self, after: int, last: str | None) -> None:
        self.left = after
        self.last = last

    def __call__(self, request: Request) -> Any:
        self.left -= 1
        if self.left > 0:
            return None
        return self.last if self.left == 0 else "drop"


def contents(bucket: Bucket) -> dict[str, bytes]:
    """Key -> content of all objects."""
    get = bucket.client.get_object
    return {key: get(Bucket=bucket.name, Key=key)["Body"].read() for key in bucket.list_keys()}


Work = Callable[[HoodieLocalWriteClient], Any]
CHANGE = trips(6, fare=2.0, ts=2)


def upsert(client: HoodieLocalWriteClient) -> None:
    client.upsert(table_of(CHANGE))


def delete(client: HoodieLocalWriteClient) -> None:
    client.delete([HoodieKey(key, row[1]) for key, row in CHANGE.items()])


def compact(client: HoodieLocalWriteClient) -> None:
    assert client.compact() is not None


def count_requests(base_path: str, bucket: Bucket, proxy: FaultyProxy, work: Work) -> int:
    with local_client(base_path, ONCE, storage_options=bucket.options(proxy.endpoint)) as c:
        work(c)
    return len(proxy.requests)


BEFORE, LEFT = trips(10), {key: row for key, row in trips(10).items() if key not in CHANGE}
LOGS = {"table_type": "MERGE_ON_READ"}
DEATHS: list[tuple[str, Work, Model, dict[str, Any]]] = [
    ("upsert", upsert, BEFORE | CHANGE, {}),
    ("upsert into log files", upsert, BEFORE | CHANGE, LOGS),
    ("upsert into log files of version 6", upsert, BEFORE | CHANGE, {**LOGS, "table_version": 6}),
    ("delete in log files", delete, LEFT, LOGS),
    ("compaction", compact, BEFORE, LOGS),
    ("compaction of version 6", compact, BEFORE, {**LOGS, "table_version": 6}),
]


QUICK = (("upsert into log files", "drop"), ("compaction", "lose"))


@pytest.mark.parametrize(
    ("last", "work", "after", "arguments"),
    [
        pytest.param(
            last,
            *case,
            id=f"{name.replace(' ', '_')}-{last}",
            marks=[] if (name, last) in QUICK else [pytest.mark.soak],
        )
        for name, *case in DEATHS
        for last in ("drop", "lose")
    ],
)
@pytest.mark.without_metadata_table("each writer would wait for the lock of the one that died")
def test_a_writer_that_dies_anywhere_on_s3_leaves_a_table_that_the_next_one_repairs(
    s3_bucket: Bucket, s3_proxy: FaultyProxy, last: str, work: Work, after: Model, arguments: dict[str, Any]
) -> None:
    options = s3_bucket.options()
    base_path = f"s3://{s3_bucket.name}/counted"
    before, new = trips(10), ("n", "asia", 1, 0.0)
    make(base_path, options, **arguments)
    with local_client(base_path, storage_options=options) as c:
        c.insert(table_of(trips(10, ts=0) if work is compact else before))
        if work is compact:
            c.upsert(table_of(before))
    snapshot = contents(s3_bucket)
    requests = count_requests(base_path, s3_bucket, s3_proxy, work)
    assert requests > 40
    outcomes = set()
    # The last request comes after the commit.
    for number in [*range(1 if last == "drop" else 3, requests - 1, 11), requests]:
        base_path = f"s3://{s3_bucket.name}/t{number}"
        for key, content in snapshot.items():
            s3_bucket.put_unasked(key.replace("counted/", f"t{number}/", 1), content)
        s3_proxy.fault = Ends(number, last)
        dying = local_client(base_path, ONCE, storage_options=s3_bucket.options(s3_proxy.endpoint))
        try:
            work(dying)
            committed = True
        except HoodieException:
            committed = False
        found = read_model(base_path, TRIPS.names, storage_options=options)
        outcomes.add(found == after)
        assert found in ([after] if committed else [before, after]), number
        with local_client(base_path, storage_options=options) as c:
            c.insert(table_of({"n": new}))
            for instant in HoodieTableMetaClient.load(base_path, options).active_timeline.filter_pending():
                # On an object store the heartbeat of a compaction outlives its process for a while.
                c.rollback(instant.requested_time)
            while c.compact() is not None:
                pass
        assert read_model(base_path, TRIPS.names, storage_options=options) == found | {"n": new}
        assert read_by_hudi_rs(s3_bucket, base_path) == found | {"n": new}
        assert not [key for key in s3_bucket.list_keys() if key.startswith(f"t{number}/.hoodie/.temp/")]
    assert outcomes == ({True, False} if before != after else {True})


def test_a_store_that_stumbles_now_and_then_is_no_matter(
    base_path: str, s3_bucket: Bucket, s3_proxy: FaultyProxy
) -> None:
    options = s3_bucket.options(s3_proxy.endpoint)
    quickly = {"hoodie.filesystem.operation.retry.initial_interval_ms": 1}
    faults = ["drop", 503, "lose", 500]

    def every_fourth(request: Request) -> Any:
        number = len(s3_proxy.requests)
        return faults[number // 4 % 4] if number % 4 == 0 else None

    make(base_path, options)
    s3_proxy.fault = every_fourth
    model = trips(20)
    with local_client(base_path, quickly, storage_options=options) as c:
        c.insert(table_of(model))
        c.upsert(table_of(trips(6, fare=2.0, ts=2)))
        model |= trips(6, fare=2.0, ts=2)
        c.delete([HoodieKey("k7", "europe")])
        del model["k7"]
    s3_proxy.fault = lambda request: None
    assert read_model(base_path, TRIPS.names, storage_options=options) == model


def test_a_secret_appears_nowhere(
    base_path: str,
    s3_bucket: Bucket,
    s3_proxy: FaultyProxy,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Every repetition is made, and logged; none waits.
    monkeypatch.setattr(RetryPolicy, "pause_seconds", lambda policy, attempt: 0.0)
    caplog.set_level(logging.DEBUG)
    options = s3_bucket.options(s3_proxy.endpoint)
    shown: list[str] = []
    make(base_path, options)
    config = HoodieWriteConfig.from_properties(base_path, ONCE, options)
    meta_client = HoodieTableMetaClient.load(base_path, options)
    shown += [repr(config), str(config), repr(meta_client), repr(meta_client.storage)]
    with HoodieLocalWriteClient(config) as c:
        result = c.insert(table_of(trips(10)))
        shown += [repr(c), repr(result), repr(pickle.loads(pickle.dumps(config)))]
    for fault in (403, 503, "drop"):
        s3_proxy.fault = lambda request, fault=fault: fault
        for call in (
            lambda: hoodie.read_table(base_path, storage_options=options),
            lambda: local_client(base_path, ONCE, storage_options=options).upsert(table_of(trips(3))),
            lambda: make(base_path + "2", options),
        ):
            with pytest.raises(HoodieException) as raised:
                call()
            shown += ["".join(traceback.format_exception(raised.value)), repr(raised.value)]
    captured = capsys.readouterr()
    shown += [caplog.text, captured.out, captured.err, *(str(record.__dict__) for record in caplog.records)]
    assert "hoodie" in caplog.text
    assert SECRET_KEY not in "\n".join(shown)
    for key, content in contents(s3_bucket).items():
        assert SECRET_KEY.encode() not in content, key
