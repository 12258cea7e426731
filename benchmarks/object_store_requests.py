"""How many requests a call sends to an object store, and how many of them wait for one another.

One partition and upserts of one row by `hoodie.write_table`, to moto's S3 behind a proxy that counts. The longest chain
is measured: a later call with every answer delayed, as elapsed time divided by the delay, after the shorter of two
times that such a call takes without a delay is taken off.

python -m benchmarks.object_store_requests --commits 20 --paths
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieWriteConfig
from tests.support.object_store_servers import Bucket, FaultyProxy, Request, running_s3

TABLES = {
    "copy-on-write": {},
    "merge-on-read": {"hoodie.datasource.write.table.type": "MERGE_ON_READ"},
    "copy-on-write, no metadata table": {"hoodie.metadata.enable": "false"},
    "merge-on-read, no metadata table": {
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.metadata.enable": "false",
    },
}
NO_SERVICES = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
}
COMMITS_WITH_SERVICES = 10
"""Each tenth delta commit of a metadata table makes a compaction of it due."""
_KINDS = (
    (r"/\.hoodie/metadata/\.hoodie/", "timeline of the metadata table"),
    (r"/\.hoodie/metadata/", "files of the metadata table"),
    (r"/\.hoodie/(.*/)?\.locks/|/\.hoodie/lock|\.lock$", "locks"),
    (r"/\.hoodie/\.heartbeat", "heartbeats"),
    (r"/\.hoodie/\.temp", "markers"),
    (r"/\.hoodie/hoodie\.properties", "properties"),
    (r"/\.hoodie/timeline|/\.hoodie/[0-9]", "timeline"),
    (r"/\.hoodie", "other of .hoodie"),
)


def row(number: int) -> pa.Table:
    """One row of one partition."""
    return pa.table({"id": [f"k{number % 7}"], "day": ["a"], "ts": [number], "v": [number * 1.5]})


class CountedStore:
    """A bucket behind a proxy that counts requests and can delay answers."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self._proxy = FaultyProxy(bucket.endpoint)
        self.options = bucket.options(self._proxy.endpoint)
        self.close = self._proxy.close

    def path(self, name: str) -> str:
        """The path of a table."""
        return f"s3://{self.bucket.name}/{name}"

    @contextmanager
    def counted(self, delay_s: float = 0.0) -> Iterator[list[Request]]:
        """The requests of a block."""
        self._proxy.requests.clear()
        self._proxy.fault = lambda request: (lambda: time.sleep(delay_s)) if delay_s else None
        found: list[Request] = []
        try:
            yield found
        finally:
            self._proxy.fault = lambda request: None
            found += self._proxy.requests


def kind_of(request: Request) -> str:
    """The method of a request, with the kind of its path."""
    path, _, query = unquote(request.path).partition("?")
    method = request.method
    if method == "GET" and "list-type=2" in query:
        prefix = re.search(r"prefix=([^&]*)", query)
        method, path = "LIST", "/" + (prefix[1] if prefix else "")
    elif method == "POST" and "delete" in query:
        method = "DELETE (many)"
    for pattern, kind in _KINDS:
        if re.search(pattern, path):
            return f"{method} {kind}"
    return f"{method} data"


def measured(store: CountedStore, call: Callable[[], Any], delay_s: float) -> tuple[list[Request], float]:
    """The requests of a call, and the longest chain of a later one; of two times without a delay the shorter counts."""
    plain = []
    requests: list[Request] = []
    for number in range(2 if delay_s else 1):
        started = time.perf_counter()
        with store.counted() as found:
            call()
        plain.append(time.perf_counter() - started)
        requests = requests if number else found
    if not delay_s:
        return requests, 0.0
    started = time.perf_counter()
    with store.counted(delay_s):
        call()
    return requests, max(0.0, time.perf_counter() - started - min(plain)) / delay_s


def show(name: str, requests: list[Request], chain: float, paths: bool) -> None:
    """Print one line, and one for each kind of request."""
    methods = Counter(kind_of(request).split()[0] for request in requests)
    text = ", ".join(f"{count} {method}" for method, count in sorted(methods.items(), key=lambda item: -item[1]))
    print(f"{name:58} {len(requests):4d}   chain {chain:4.0f}   {text}", flush=True)
    if paths:
        for kind, count in Counter(map(kind_of, requests)).most_common():
            print(f"{'':58} {count:4d}     {kind}")


def show_many(name: str, calls: list[list[Request]]) -> None:
    """Print one line for several calls: some of them also compact and archive the metadata table."""
    counts = [len(requests) for requests in calls]
    print(f"{name:58} {sum(counts) / len(counts):4.0f}   at most {max(counts)}, of {len(counts)} commits", flush=True)


def measure_table(store: CountedStore, name: str, options: dict[str, str], arguments: argparse.Namespace) -> None:
    """Print the requests of all calls for one kind of table."""
    counter = iter(range(10**6))
    keys: dict[str, Any] = {
        "record_key_fields": "id", "partition_fields": "day", "ordering_fields": "ts", "storage_options": store.options,
    }  # fmt: skip

    def upsert(path: str, more: dict[str, str]) -> None:
        hoodie.write_table(row(next(counter)), path, properties={**options, **more}, **keys)

    firsts = iter(range(10**6))
    measure = lambda call: measured(store, call, arguments.delay / 1000)  # noqa: E731
    show(f"{name}: first write", *measure(lambda: upsert(store.path(f"{name[:13]}-{len(options)}-{next(firsts)}"), {})),
         arguments.paths)  # fmt: skip
    path = store.path(f"{name[:13]}-{len(options)}-table")
    for _ in range(arguments.commits):
        upsert(path, NO_SERVICES)
    show(f"{name}: upsert", *measure(lambda: upsert(path, NO_SERVICES)), arguments.paths)
    config = HoodieWriteConfig.from_properties(path, {**options, **NO_SERVICES}, storage_options=store.options)
    with HoodieLocalWriteClient(config) as client:
        client.upsert(row(next(counter)))
        living = measure(lambda: client.upsert(row(next(counter))))
    show(f"{name}: second upsert of a client", *living, arguments.paths)
    show(f"{name}: read", *measure(lambda: hoodie.read_table(path, storage_options=store.options)), arguments.paths)
    due = {"hoodie.cleaner.commits.retained": "2", "hoodie.keep.min.commits": "4", "hoodie.keep.max.commits": "5"}
    upsert(path, due)
    show_many(f"{name}: upsert with clean and archive", [measured(store, lambda: upsert(path, due), 0.0)[0]
                                                         for _ in range(COMMITS_WITH_SERVICES)])  # fmt: skip


def measure_delta(store: CountedStore, arguments: argparse.Namespace) -> None:
    """Print the requests of deltalake's append and merge."""
    import deltalake

    options = {
        "AWS_ACCESS_KEY_ID": store.options["access_key_id"], "AWS_REGION": "us-east-1",
        "AWS_SECRET_ACCESS_KEY": store.options["secret_access_key"], "AWS_ENDPOINT_URL": store.options["endpoint"],
        "AWS_ALLOW_HTTP": "true", "aws_conditional_put": "etag",
    }  # fmt: skip
    path = store.path("delta")
    for number in range(arguments.commits):
        deltalake.write_deltalake(path, row(number), mode="append", partition_by=["day"], storage_options=options)

    def append() -> None:
        deltalake.write_deltalake(path, row(100), mode="append", storage_options=options)

    def merge() -> None:
        table = deltalake.DeltaTable(path, storage_options=options)
        merger = table.merge(row(3), "t.id = s.id and t.day = s.day", source_alias="s", target_alias="t")
        merger.when_matched_update_all().when_not_matched_insert_all().execute()

    for name, call in (("append", append), ("merge", merge)):
        show(f"deltalake: {name}", *measured(store, call, arguments.delay / 1000), arguments.paths)


def main() -> None:
    """Print one line for each call."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=20, help="commits before the measured ones")
    parser.add_argument("--delay", type=float, default=30.0, help="milliseconds; 0: no chain is measured")
    parser.add_argument("--paths", action="store_true", help="also print each method with the kind of its path")
    parser.add_argument("--tables", default=",".join(str(n) for n in range(len(TABLES))), help="numbers of the kinds")
    parser.add_argument("--no-delta", action="store_true", help="without deltalake")
    arguments = parser.parse_args()
    with running_s3() as server, closing(CountedStore(server.new_bucket())) as store:
        for number, (name, options) in enumerate(TABLES.items()):
            if str(number) in arguments.tables.split(","):
                measure_table(store, name, options, arguments)
        if not arguments.no_delta:
            measure_delta(store, arguments)


if __name__ == "__main__":
    main()
