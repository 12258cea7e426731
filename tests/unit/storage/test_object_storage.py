from __future__ import annotations

import pickle
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie.exception import HoodieConfigException, HoodieIOException, HoodieNotSupportedException
from hoodie.storage.object_storage import ObjectStorage
from hoodie.storage.retry import RetryPolicy
from hoodie.storage.storage import abort_stream
from hoodie.storage.storage_factory import open_storage
from tests.support.object_store_servers import SECRET_KEY, Bucket, FaultyProxy, Request

QUICK = RetryPolicy(max_retries=3, initial_interval_ms=1, max_interval_ms=4)
PART = 8 * 1024 * 1024


@pytest.fixture
def base(s3_bucket: Bucket) -> str:
    return f"s3://{s3_bucket.name}/lake/table"


@pytest.fixture
def storage(base: str, s3_bucket: Bucket) -> ObjectStorage:
    return ObjectStorage(base, s3_bucket.options(), QUICK)


@pytest.fixture
def far(base: str, s3_bucket: Bucket, s3_proxy: FaultyProxy) -> ObjectStorage:
    """The same table behind the proxy."""
    return ObjectStorage(base, {**s3_bucket.options(s3_proxy.endpoint), "timeout": "5s"}, QUICK)


def first(method: str, fault: Any, times: int = 1) -> Any:
    """A fault of the first requests of a method."""
    left = [times]

    def decide(request: Request) -> Any:
        if request.method != method or left[0] == 0:
            return None
        left[0] -= 1
        return fault

    return decide


def test_of_two_clients_exactly_one_creates_each_file(base: str, s3_bucket: Bucket) -> None:
    # Different options: two clients, not one that is shared.
    clients = [ObjectStorage(base, {**s3_bucket.options(), "user_agent": name}) for name in ("one", "two")]
    with ThreadPoolExecutor(2) as pool:
        for number in range(60):
            barrier = threading.Barrier(2)

            def create(client: int, number: int = number, barrier: threading.Barrier = barrier) -> bool:
                barrier.wait()
                return clients[client].create_if_absent(f"{base}/{number}", b"%d" % client)

            answers = list(pool.map(create, range(2)))
            assert sorted(answers) == [False, True]
            assert clients[0].read(f"{base}/{number}") == b"%d" % answers.index(True)


def test_a_put_is_conditional_and_carries_a_token(far: ObjectStorage, base: str, s3_proxy: FaultyProxy) -> None:
    far.create_if_absent(f"{base}/file", b"x")
    (put,) = s3_proxy.requests
    assert put.headers["if-none-match"] == "*"
    assert len(put.headers["x-amz-meta-hoodietoken"]) == 32


@pytest.mark.parametrize("content", [b"mine", b""])
def test_a_put_that_was_applied_before_its_answer_was_lost_counts_and_is_not_repeated(
    far: ObjectStorage, base: str, s3_proxy: FaultyProxy, content: bytes
) -> None:
    s3_proxy.fault = first("PUT", "lose")
    assert far.create_if_absent(f"{base}/file", content) is True
    assert s3_proxy.count("PUT") == 1
    assert far.read(f"{base}/file") == content


@pytest.mark.parametrize("content", [b"the same", b""])
def test_a_put_that_lost_its_answer_and_the_race_lost_the_race(
    far: ObjectStorage, storage: ObjectStorage, base: str, s3_proxy: FaultyProxy, content: bytes
) -> None:
    assert storage.create_if_absent(f"{base}/file", content) is True
    s3_proxy.fault = first("PUT", "lose")
    assert far.create_if_absent(f"{base}/file", content) is False


@pytest.mark.parametrize("fault", ["drop", 503, 500, 409])
def test_a_put_that_was_not_applied_is_tried_again(
    far: ObjectStorage, base: str, s3_proxy: FaultyProxy, fault: Any
) -> None:
    s3_proxy.fault = first("PUT", fault, times=2)
    assert far.create_if_absent(f"{base}/file", b"x") is True
    assert s3_proxy.count("PUT") == 3
    assert len({r.headers["x-amz-meta-hoodietoken"] for r in s3_proxy.requests if r.method == "PUT"}) == 1


def test_a_put_that_times_out_after_it_was_applied_counts(base: str, s3_bucket: Bucket, s3_proxy: FaultyProxy) -> None:
    hasty = ObjectStorage(base, {**s3_bucket.options(s3_proxy.endpoint), "timeout": "1s"}, QUICK)
    direct = ObjectStorage(base, s3_bucket.options(), QUICK)
    gave_up = threading.Event()

    def slow(request: Request) -> Any:
        if len(s3_proxy.requests) > 1:
            gave_up.set()
            return None
        return lambda: gave_up.wait(60)

    s3_proxy.fault = slow
    assert hasty.create_if_absent(f"{base}/file", b"x") is True
    assert gave_up.is_set()
    assert direct.read(f"{base}/file") == b"x"


def test_a_put_that_is_never_applied_ends_with_an_error_that_says_so(
    far: ObjectStorage, base: str, s3_proxy: FaultyProxy
) -> None:
    s3_proxy.fault = first("PUT", "drop", times=100)
    with pytest.raises(HoodieIOException, match=rf"Creating {base}/file failed after 4 attempts.*unknown.*repeat"):
        far.create_if_absent(f"{base}/file", b"x")
    assert s3_proxy.count("PUT") == 4


def test_when_nothing_can_be_read_back_the_outcome_is_unknown(
    far: ObjectStorage, base: str, s3_proxy: FaultyProxy
) -> None:
    s3_proxy.fault = lambda request: "lose" if request.method == "PUT" else "drop"
    with pytest.raises(HoodieIOException, match=r"Whether the file was made is unknown: Looking up .* 4 attempts"):
        far.create_if_absent(f"{base}/file", b"x")
    assert s3_proxy.count("PUT") == 1


@pytest.mark.parametrize("status", [403, 400])
def test_a_definite_answer_to_a_put_is_not_asked_for_again(
    far: ObjectStorage, base: str, s3_proxy: FaultyProxy, status: int
) -> None:
    s3_proxy.fault = first("PUT", status, times=100)
    with pytest.raises(HoodieIOException, match=rf"Creating {base}/file failed after 1 attempt.*{status}"):
        far.create_if_absent(f"{base}/file", b"x")
    assert s3_proxy.count("PUT") == 1


def test_a_store_without_the_conditional_put_is_refused(far: ObjectStorage, base: str, s3_proxy: FaultyProxy) -> None:
    s3_proxy.fault = first("PUT", 501, times=100)
    with pytest.raises(HoodieNotSupportedException, match="conditional put"):
        far.create_if_absent(f"{base}/file", b"x")


CALLS = {
    "Reading": ("GET", lambda storage, base: storage.read(f"{base}/file")),
    "Replacing": ("PUT", lambda storage, base: storage.replace(f"{base}/file", b"x")),
    "Looking up": ("HEAD", lambda storage, base: storage.file_status(f"{base}/file")),
    "Listing": ("GET", lambda storage, base: storage.list_directory(base)),
    "Deleting": ("POST", lambda storage, base: storage.delete_file(f"{base}/file")),
    "Opening": ("HEAD", lambda storage, base: storage.open_input_file(f"{base}/file").read()),
}


@pytest.mark.parametrize("action", CALLS)
@pytest.mark.parametrize("fault", ["drop", 503, 429])
def test_calls_that_can_be_repeated_are_repeated(
    far: ObjectStorage, storage: ObjectStorage, base: str, s3_proxy: FaultyProxy, action: str, fault: Any
) -> None:
    storage.create_if_absent(f"{base}/file", b"x")
    method, call = CALLS[action]
    s3_proxy.fault = first(method, fault, times=3)
    call(far, base)
    assert s3_proxy.count(method) >= 4


@pytest.mark.parametrize("action", CALLS)
def test_repetition_has_a_limit_and_its_error_says_what_was_done_where_how_often_and_what_to_do(
    far: ObjectStorage, storage: ObjectStorage, base: str, s3_proxy: FaultyProxy, action: str
) -> None:
    storage.create_if_absent(f"{base}/file", b"x")
    method, call = CALLS[action]
    s3_proxy.fault = first(method, 503, times=1000)
    name = {"Opening": "Looking up"}.get(action, action)
    with pytest.raises(HoodieIOException, match=rf"{name} {base}.* failed after 4 attempts: .*503.*retry\.max_numbers"):
        call(far, base)
    assert s3_proxy.count(method) == 4


@pytest.mark.parametrize("action", CALLS)
def test_forbidden_is_a_definite_answer(
    far: ObjectStorage, storage: ObjectStorage, base: str, s3_proxy: FaultyProxy, action: str
) -> None:
    storage.create_if_absent(f"{base}/file", b"x")
    method, call = CALLS[action]
    s3_proxy.fault = first(method, 403, times=1000)
    with pytest.raises(HoodieIOException, match="after 1 attempt.*credentials"):
        call(far, base)
    assert s3_proxy.count(method) == 1


def test_a_missing_file_is_a_definite_answer(far: ObjectStorage, base: str, s3_proxy: FaultyProxy) -> None:
    with pytest.raises(FileNotFoundError):
        far.read(f"{base}/missing")
    assert len(s3_proxy.requests) == 1


def test_a_missing_bucket_is_not_an_empty_table(storage: ObjectStorage, base: str, s3_bucket: Bucket) -> None:
    s3_bucket.client.delete_bucket(Bucket=s3_bucket.name)
    for call in (storage.list_directory, storage.list_files, storage.read):
        with pytest.raises(HoodieIOException, match=r"bucket does not exist; make it"):
            call(f"{base}/d")


def test_a_store_that_is_not_there_is_said(base: str, s3_bucket: Bucket) -> None:
    storage = ObjectStorage(base, s3_bucket.options("http://127.0.0.1:9"), QUICK)
    with pytest.raises(HoodieIOException, match=r"after 4 attempts.*out of reach"):
        storage.read(f"{base}/file")


def test_pauses_grow_up_to_a_limit() -> None:
    policy = RetryPolicy(max_retries=9, initial_interval_ms=100, max_interval_ms=500)
    for attempt, longest in ((1, 0.1), (2, 0.2), (3, 0.4), (4, 0.5), (500, 0.5)):
        pauses = [policy.pause_seconds(attempt) for _ in range(50)]
        assert longest / 2 <= min(pauses) < max(pauses) <= longest


def test_what_another_client_wrote_and_deleted_is_seen_at_once(base: str, s3_bucket: Bucket) -> None:
    ours, theirs = (ObjectStorage(base, {**s3_bucket.options(), "user_agent": name}) for name in ("one", "two"))
    for number in range(10):
        assert ours.list_directory(f"{base}/l") == ours.list_directory(f"{base}/l")
        theirs.create_if_absent(f"{base}/l/{number}", b"x")
        assert len(ours.list_directory(f"{base}/l")) == len(ours.list_files(f"{base}/l")) == number + 1
        assert ours.exists(f"{base}/l/{number}") and not ours.exists(f"{base}/l/{number + 1}")
    theirs.delete_directory(f"{base}/l")
    assert ours.list_directory(f"{base}/l") == []


def test_a_listing_of_three_thousand_files_is_whole(storage: ObjectStorage, base: str, s3_bucket: Bucket) -> None:
    names = [f"f{number:04d}" for number in range(3000)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: storage.replace(f"{base}/p/{name}", b"x"), names[:20]))
    # The rest behind the server's back: its answers would take a minute.
    for name in names[20:]:
        s3_bucket.put_unasked(f"lake/table/p/{name}", b"x")
    assert [entry.name for entry in storage.list_directory(f"{base}/p")] == names
    assert [entry.name for entry in storage.list_files(base)] == names
    assert storage.delete_directory(f"{base}/p") is True
    assert s3_bucket.list_keys() == []


def test_hundreds_of_files_are_deleted_by_few_requests(
    far: ObjectStorage, storage: ObjectStorage, base: str, s3_bucket: Bucket, s3_proxy: FaultyProxy
) -> None:
    for number in range(0, 600, 2):
        s3_bucket.client.put_object(Bucket=s3_bucket.name, Key=f"lake/table/x/{number}", Body=b"x")
    far.delete_files(f"{base}/x/{number}" for number in range(600))
    assert storage.list_files(base) == []
    # A thousand keys each; every file may have a checksum beside it.
    assert [request.method for request in s3_proxy.requests] == ["POST", "POST"]
    storage.create_if_absent(f"{base}/kept", b"x")
    with pytest.raises(HoodieIOException, match="outside of the bucket"):
        storage.delete_files([f"{base}/kept", "s3://another-bucket/lake/table/kept"])
    assert storage.read(f"{base}/kept") == b"x"


def test_a_look_for_a_file_or_for_a_folder_of_the_metafolder_is_one_request(
    far: ObjectStorage, base: str, s3_proxy: FaultyProxy
) -> None:
    far.create_if_absent(f"{base}/folder/file", b"")
    s3_proxy.requests.clear()
    assert far.is_file(f"{base}/folder/file")
    assert not far.is_file(f"{base}/folder")
    assert not far.is_file(f"{base}/nothing")
    assert far.list_directory(f"{base}/.hoodie/timeline") == []
    assert far.list_files(f"{base}/.hoodie/.temp") == []
    assert not far.delete_directory(f"{base}/.hoodie/.temp")
    assert len(s3_proxy.requests) == 6
    with pytest.raises(HoodieIOException, match="is a file"):
        far.list_directory(f"{base}/folder/file")


def test_directory_markers_of_other_programs_are_not_files(
    storage: ObjectStorage, base: str, s3_bucket: Bucket
) -> None:
    for key in ("lake/table/", "lake/table/p/"):
        s3_bucket.client.put_object(Bucket=s3_bucket.name, Key=key, Body=b"")
    storage.create_if_absent(f"{base}/p/file", b"x")
    assert [(entry.name, entry.is_directory) for entry in storage.list_directory(base)] == [("p", True)]
    assert [entry.name for entry in storage.list_directory(f"{base}/p")] == ["file"]
    assert [entry.name for entry in storage.list_files(base)] == ["file"]


def test_large_files_go_up_in_parts_and_are_read_in_ranges(
    far: ObjectStorage, base: str, s3_bucket: Bucket, s3_proxy: FaultyProxy
) -> None:
    content = bytes(range(256)) * (9 * PART // 4 // 256)
    with far.open_output_stream(f"{base}/data") as stream:
        for start in range(0, len(content), 1_000_000):
            stream.write(content[start : start + 1_000_000])
        assert stream.tell() == len(content)
        assert not far.exists(f"{base}/data")
    assert s3_proxy.count("PUT") == 3 and s3_proxy.count("POST") == 2
    s3_proxy.requests.clear()
    with far.open_input_file(f"{base}/data") as file:
        assert file.size() == len(content)
        assert file.read_at(1000, PART - 500) == content[PART - 500 : PART + 500]
        assert file.read_at(10, len(content) - 5) == content[-5:]
    assert [r.headers.get("range") is not None for r in s3_proxy.requests if r.method == "GET"] == [True, True]


def test_each_thread_has_its_own_position_in_a_file(storage: ObjectStorage, base: str) -> None:
    """Arrow moves the position to find a file's size, also while another thread reads at an offset."""
    path = f"{base}/f"
    storage.create_if_absent(path, bytes(range(200)))
    with storage.open_input_file(path) as file, ThreadPoolExecutor(1) as other:
        file.seek(7)
        assert other.submit(lambda: (file.size(), file.seek(100), file.read(2))).result() == (200, 100, b"de")
        assert file.tell() == 7
        assert file.read(2) == bytes([7, 8])
        assert file.read_at(1, 150) == bytes([150])


def test_parquet_is_read_without_the_columns_that_nobody_wants(
    far: ObjectStorage, base: str, s3_proxy: FaultyProxy
) -> None:
    table = pa.table({"a": list(range(300_000)), "b": [float(i) * 1.1 for i in range(300_000)]})
    with far.open_output_stream(f"{base}/t.parquet") as stream:
        pq.write_table(table, stream, compression="none", use_dictionary=False)
    s3_proxy.requests.clear()
    with far.open_input_file(f"{base}/t.parquet") as file:
        assert pq.ParquetFile(file).read(["a"]).column("a").to_pylist() == table.column("a").to_pylist()
    ranges = [r.headers["range"].removeprefix("bytes=").split("-") for r in s3_proxy.requests if r.method == "GET"]
    assert sum(int(end) - int(start) + 1 for start, end in ranges) < 3_000_000


def test_a_reader_notices_that_its_file_was_deleted(storage: ObjectStorage, base: str) -> None:
    storage.create_if_absent(f"{base}/file", b"x" * 300_000)
    with storage.open_input_file(f"{base}/file") as file:
        file.read(10)
        storage.delete_file(f"{base}/file")
        with pytest.raises(HoodieIOException, match="deleted while it was being read"):
            file.read_at(10, 150_000)


@pytest.mark.parametrize("size", [10, 3 * PART])
@pytest.mark.parametrize("way", ["abort", "error", "garbage"])
def test_a_stream_that_is_given_up_leaves_nothing(
    storage: ObjectStorage, base: str, s3_bucket: Bucket, size: int, way: str
) -> None:
    stream = storage.open_output_stream(f"{base}/data")
    if way == "error":
        with pytest.raises(ZeroDivisionError), stream:
            stream.write(b"x" * size)
            raise ZeroDivisionError
    else:
        stream.write(b"x" * size)
        if way == "abort":
            abort_stream(stream)
            assert stream.closed
        del stream
    assert s3_bucket.list_keys() == []
    assert s3_bucket.unfinished_uploads() == []


def test_a_stream_whose_store_fails_raises_and_leaves_nothing(
    far: ObjectStorage, base: str, s3_bucket: Bucket, s3_proxy: FaultyProxy
) -> None:
    s3_proxy.fault = lambda request: 403 if "partNumber=2" in request.path else None
    stream = far.open_output_stream(f"{base}/data")
    with pytest.raises(HoodieIOException, match=rf"Writing {base}/data failed.*403"), stream:
        for _ in range(6):
            stream.write(b"x" * PART)
    assert s3_bucket.list_keys() == []


def test_parts_are_repeated_when_the_store_fails_for_a_moment(
    far: ObjectStorage, storage: ObjectStorage, base: str, s3_proxy: FaultyProxy
) -> None:
    s3_proxy.fault = first("PUT", 503, times=3)
    with far.open_output_stream(f"{base}/data") as stream:
        stream.write(b"x" * (2 * PART + 1))
    assert len(storage.read(f"{base}/data")) == 2 * PART + 1


def test_a_pickled_storage_makes_clients_of_its_own(storage: ObjectStorage, base: str) -> None:
    storage.create_if_absent(f"{base}/file", b"x")
    copy = pickle.loads(pickle.dumps(storage))
    assert copy == copy and copy.retry == QUICK
    assert copy.read(f"{base}/file") == b"x"


def test_nothing_is_connected_to_before_it_is_needed(base: str) -> None:
    open_storage(base, {"no_such_option": "x"})


@pytest.mark.parametrize("spelling", ["obstore", "delta", "s3fs", "environment"])
def test_options_have_the_names_that_people_know(
    base: str, s3_bucket: Bucket, spelling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = s3_bucket.options()
    options = {
        "obstore": given,
        "delta": {
            "AWS_ACCESS_KEY_ID": given["access_key_id"],
            "AWS_SECRET_ACCESS_KEY": given["secret_access_key"],
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": given["endpoint"],
            "AWS_ALLOW_HTTP": "true",
        },
        "s3fs": {
            "key": given["access_key_id"],
            "secret": given["secret_access_key"],
            "client_kwargs": {"endpoint_url": given["endpoint"], "region_name": "us-east-1"},
        },
        "environment": {},
    }[spelling]
    if spelling == "environment":
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", given["access_key_id"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", given["secret_access_key"])
        monkeypatch.setenv("AWS_ENDPOINT", given["endpoint"])
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert open_storage(base, options).create_if_absent(f"{base}/file", b"x") is True


def test_wrong_options_are_named_without_their_values(base: str) -> None:
    with pytest.raises(HoodieConfigException, match="no_such_option") as raised:
        open_storage(base, {"no_such_option": SECRET_KEY, "secret": SECRET_KEY}).read(f"{base}/file")
    assert SECRET_KEY not in "".join(traceback.format_exception(raised.value))
    with pytest.raises(HoodieConfigException, match="dict"):
        open_storage(base, [("key", SECRET_KEY)])  # type: ignore[arg-type]
    with pytest.raises(HoodieConfigException, match="another bucket"):
        open_storage(base, {"bucket": "other"}).read(f"{base}/file")


def test_without_the_library_the_extra_is_named(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    for path, extra in ((base, "s3"), ("gs://b/t", "gcs"), ("abfss://c@a.dfs.core.windows.net/t", "azure")):
        with pytest.raises(HoodieNotSupportedException, match=rf"hoodie\[{extra}\]"):
            open_storage(path, {"user_agent": "without"}).read(f"{path}/file")


class Provider:
    """Counts how often it is asked; picklable."""

    def __init__(self, options: Mapping[str, Any], lasts: timedelta | None = None) -> None:
        self.options = dict(options)
        self.lasts = lasts
        self.asked = 0

    def __call__(self) -> Mapping[str, Any]:
        self.asked += 1
        return self.options | ({"expires_at": datetime.now(UTC) + self.lasts} if self.lasts else {})


def test_a_function_gives_the_options_and_is_asked_once(base: str, s3_bucket: Bucket) -> None:
    provider = Provider(s3_bucket.options())
    storage = open_storage(base, provider)
    for number in range(3):
        assert storage.create_if_absent(f"{base}/{number}", b"x") is True
    assert provider.asked == 1
    assert open_storage(base, pickle.loads(pickle.dumps(provider))).read(f"{base}/1") == b"x"


def test_a_function_is_asked_again_before_what_it_gave_expires(
    base: str, s3_bucket: Bucket, s3_proxy: FaultyProxy
) -> None:
    provider = Provider(s3_bucket.options(s3_proxy.endpoint), timedelta(seconds=1))
    storage = open_storage(base, provider)
    storage.create_if_absent(f"{base}/1", b"x")
    provider.options["access_key_id"] = "AKIAANOTHER"
    time.sleep(0.2)  # the library does not ask more often than every tenth of a second
    storage.create_if_absent(f"{base}/2", b"x")
    assert provider.asked >= 2
    assert "AKIAANOTHER" in s3_proxy.requests[-1].headers["authorization"]


def test_a_function_that_fails_or_gives_something_else_is_named(base: str) -> None:
    def broken() -> Mapping[str, Any]:
        raise KeyError("vault")

    with pytest.raises(HoodieConfigException, match="function given as storage_options failed with KeyError"):
        open_storage(base, broken).read(f"{base}/x")
    with pytest.raises(HoodieConfigException, match="dict"):
        open_storage(base, lambda: ["x"]).read(f"{base}/x")  # type: ignore[arg-type, return-value]


@pytest.fixture
def failures(far: ObjectStorage, base: str, s3_proxy: FaultyProxy) -> Iterator[list[BaseException]]:
    found: list[BaseException] = []
    for status in (403, 400, 503, 301):
        s3_proxy.fault = lambda request, status=status: status
        for call in (
            lambda: far.read(f"{base}/x"),
            lambda: far.create_if_absent(f"{base}/x", b""),
            lambda: far.list_files(base),
            lambda: far.open_output_stream(f"{base}/x").close(),
        ):
            with pytest.raises(HoodieIOException) as raised:
                call()
            found.append(raised.value)
    yield found


def test_secrets_are_in_no_error_nor_in_what_is_behind_it(failures: list[BaseException], far: ObjectStorage) -> None:
    seen: list[BaseException] = []
    for error in failures:
        chain: BaseException | None = error
        while chain is not None and chain not in seen:
            seen.append(chain)
            chain = chain.__cause__ or chain.__context__
    assert len(seen) >= len(failures) == 16
    text = "".join("".join(traceback.format_exception(error)) + repr(error) for error in seen) + repr(far) + str(far)
    assert SECRET_KEY not in text
