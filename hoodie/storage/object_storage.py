"""Tables on S3, Google Cloud Storage and Azure, through the library obstore (the Rust crate object_store).

How the timeline is safe there:

* A file is created by a conditional put (``If-None-Match: *``; Google: generation 0): of many writers the store lets
  one win. Each put carries a token of its own in the object's metadata. When the answer is lost, or says that the name
  is taken, the object is looked at: with our token the put was ours, and was applied. S3 also refuses a put that meets
  another one on its way (409); with nothing there it is put again, which the condition makes safe.
* A put is atomic: readers see the old object or the new one. Listings are those of the store, never a cache's.
* Data files are uploaded in parts and appear when they are complete.

Calls that fail for a passing reason (no connection, a time-out, 408, 429, 5xx) are made again as `RetryPolicy` says;
definite answers (403, 404, 412) are not.

There are no directories: one exists as long as something is below it. A directory marker (an empty object whose key
ends in ``/``, as Hadoop's connectors make them) is left out of listings.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import attrs
import pyarrow as pa

from hoodie.exception import HoodieException, HoodieIOException, HoodieNotSupportedException
from hoodie.storage import storage_path
from hoodie.storage.local_files import is_hidden_from_listings
from hoodie.storage.object_store_settings import ObjectStores, open_stores, split_bucket
from hoodie.storage.output_stream import AbortableOutputStream
from hoodie.storage.retry import RetryPolicy
from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.storage.storage_options import StorageOptions, check_options, redact

try:
    import obstore
    import obstore.exceptions
except ImportError:  # said by open_stores
    obstore = None

__all__ = ["ObjectStorage"]

logger = logging.getLogger(__name__)

_Answer = TypeVar("_Answer")

_TOKEN = "hoodietoken"
"""Name of the metadata entry of a conditional put. Letters only: Azure takes identifiers, and S3 changes case."""
_PART_BYTES = 8 * 1024 * 1024
_PARTS_AT_ONCE = 4
_READ_AHEAD_BYTES = 64 * 1024
_LONGEST_MESSAGE = 600
_STORES_KEPT = 16

_STATUS = re.compile(r"status code: (\d{3})")
_FORBIDDEN = re.compile(r"status code: 40[13]")
_TRANSIENT_STATUS = frozenset({408, 425, 429})
_TRANSIENT_TEXTS = ("HTTP error:", "error sending request", "error decoding response body", "connection closed")
_MISSING_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|bucket does not exist|container does not exist")

_stores: dict[Any, ObjectStores] = {}
_stores_lock = threading.Lock()


@attrs.frozen
class _Failure:
    """What is known of a call that failed, without secrets.

    Attributes:
        message: One line.
        kind: The name of the library's exception.
        is_transient: Whether the same call may succeed in a moment.
    """

    message: str
    kind: str
    is_transient: bool

    @property
    def is_missing(self) -> bool:
        """Whether there is no such object; a missing bucket is another failure."""
        return self.kind == "FileNotFoundError" and not _MISSING_BUCKET.search(self.message)

    @property
    def is_taken(self) -> bool:
        """Whether a conditional put found its name taken."""
        return self.kind in ("AlreadyExistsError", "PreconditionError")


class _CallError(Exception):
    """A call failed for good, after so many attempts."""

    def __init__(self, failure: _Failure, attempts: int) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.attempts = attempts


@attrs.frozen(eq=False)
class ObjectStorage(HoodieStorage):
    """A bucket of S3, Google Cloud Storage or Azure as home of tables.

    Picklable: clients are made in each process, one for each bucket and set of options, and shared by its threads.

    Attributes:
        base_path: The normalised base path of the table that this storage was opened for.
        storage_options: See `hoodie.storage.storage_options`; never printed.
        retry: How often a call is made again.

    Hudi: org.apache.hudi.storage.hadoop.HoodieHadoopStorage. Differs: files are created by
    conditional puts.
    """

    base_path: str
    storage_options: StorageOptions | None = attrs.field(default=None, repr=False)
    retry: RetryPolicy = attrs.field(factory=RetryPolicy)

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Create a whole file unless the name is taken; see `HoodieStorage.create_if_absent`."""
        token = uuid.uuid4().hex
        key = self._key(path)
        attempt = 0
        while True:
            attempt += 1
            failure = self._try(
                lambda: obstore.put(
                    self._open().plain, key, data, mode="create", attributes={_TOKEN: token}, use_multipart=False
                )
            )
            if not isinstance(failure, _Failure):
                return True
            if not failure.is_taken and not failure.is_transient:
                raise _io_error("Creating", path, _CallError(failure, attempt)) from None
            found = self._found_token(path, failure)
            if found is not None:
                return found == token
            if attempt > self.retry.max_retries:
                raise HoodieIOException(
                    f"Creating {path} failed after {_times(attempt)}, and whether the file will appear is unknown: "
                    f"{failure.message}. Wait until the store answers again, then repeat the operation; "
                    "the next commit rolls back what this one left"
                )
            logger.debug("creating %s failed and left no file, trying again: %s", path, failure.message)
            time.sleep(self.retry.pause_seconds(attempt))

    def replace(self, path: str, data: bytes) -> None:
        """Put a whole file under its name; see `HoodieStorage.replace`."""
        self._call("Replacing", path, lambda stores, key: obstore.put(stores.plain, key, data, use_multipart=False))
        self._delete_keys([self._key(_checksum_sibling(path))], path)

    def read_versioned(self, path: str) -> tuple[bytes, str]:
        """A file and its version; see `HoodieStorage.read_versioned`."""

        def get(stores: ObjectStores, key: str) -> tuple[bytes, str]:
            found = obstore.get(stores.plain, key)
            version = _version_of(found.meta)
            return found.bytes().to_bytes(), version

        answer: tuple[bytes, str] = self._call("Reading", path, get)
        return answer

    def replace_version(self, path: str, data: bytes, version: str | None) -> str | None:
        """Replace a version of a file by a conditional put; see `HoodieStorage.replace_version`."""
        key = self._key(path)
        mode = "create" if version is None else json.loads(version)
        attempt = 0
        while True:
            attempt += 1
            answer = self._try(lambda: obstore.put(self._open().plain, key, data, mode=mode, use_multipart=False))
            if not isinstance(answer, _Failure):
                return _version_of(answer)
            if not answer.is_taken and not answer.is_transient and not answer.is_missing:
                raise _io_error("Replacing a version of", path, _CallError(answer, attempt)) from None
            # The answer of a put that was applied may have been lost.
            try:
                content, found = self.read_versioned(path)
            except FileNotFoundError:
                content, found = b"", ""
            if content == data:
                return found
            if (found or None) != version:
                return None
            if attempt > self.retry.max_retries:
                raise _io_error("Replacing a version of", path, _CallError(answer, attempt)) from None
            time.sleep(self.retry.pause_seconds(attempt))

    def read(self, path: str) -> bytes:
        """The whole content of a file; see `HoodieStorage.read`."""
        content: bytes = self._call(
            "Reading", path, lambda stores, key: obstore.get(stores.plain, key).bytes().to_bytes()
        )
        return content

    def file_status(self, path: str) -> FileStatus | None:
        """The status of a file or directory; see `HoodieStorage.file_status`."""
        found = self._head(path)
        if found is not None and (found.size_bytes or not self._has_real_directories):
            return found
        if self._has_children(path):
            return FileStatus(path=path, size_bytes=0, modification_time_ms=0, is_directory=True)
        return found

    def list_directory(self, path: str) -> list[FileStatus]:
        """Direct children; see `HoodieStorage.list_directory`."""
        listed = self._call("Listing", path, lambda stores, key: obstore.list_with_delimiter(stores.plain, key or None))
        children = [FileStatus(self._path(prefix), 0, 0, is_directory=True) for prefix in listed["common_prefixes"]]
        directories = {child.path for child in children} | {path}
        files = (self._status(entry) for entry in listed["objects"])
        children += [file for file in files if file.size_bytes or file.path not in directories]
        if not children and self._head(path) is not None:
            self._refuse_file(path)
        return sorted(_visible(children), key=lambda child: child.name)

    def list_files(self, path: str) -> list[FileStatus]:
        """All files below a directory; see `HoodieStorage.list_files`."""
        files = [self._status(entry) for entry in self._entries(path)]
        if not files and self._head(path) is not None:
            self._refuse_file(path)
        directories = {path} | {storage_path.parent(file.path) for file in files}
        files = [file for file in files if file.size_bytes or file.path not in directories]
        return sorted(_visible(files), key=lambda file: file.path)

    def create_directory(self, path: str) -> None:
        """Nothing: a directory exists as long as something is below it."""

    def delete_file(self, path: str) -> bool:
        """Delete a file; see `HoodieStorage.delete_file`."""
        if self._head(path) is None:
            if self._has_children(path):
                raise HoodieIOException(f"Deleting {path} failed: it is a directory")
            return False
        keys = [self._key(path)]
        if not is_hidden_from_listings(storage_path.file_name(path)):
            keys.append(self._key(_checksum_sibling(path)))
        self._delete_keys(keys, path)
        return True

    def delete_directory(self, path: str) -> bool:
        """Delete all below a directory; see `HoodieStorage.delete_directory`.

        A directory marker of another program stays: the library cannot name its key.
        """
        keys = [str(entry["path"]) for entry in self._entries(path)]
        own_key = self._key(path)
        if not keys:
            if self._head(path) is not None:
                raise HoodieIOException(f"Deleting the directory {path} failed: it is a file")
            return False
        self._delete_keys([key for key in keys if key != own_key], path)
        return True

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file for random access; see `HoodieStorage.open_input_file`."""
        found = self._head(path)
        if found is None:
            raise FileNotFoundError(f"Opening {path}: there is no such file")
        return pa.PythonFile(_RangeReader(self, path, found.size_bytes), mode="r")

    def open_output_stream(self, path: str) -> pa.NativeFile:
        """Open a data file for writing; see `HoodieStorage.open_output_stream`.

        The file appears when the stream is closed; `hoodie.storage.output_stream.abort_stream` drops it.
        """
        self._check_credentials(path)
        return AbortableOutputStream(_Upload(self, path), mode="w")

    def _check_credentials(self, path: str) -> None:
        """Make the clients, so that wrong options are said before the first byte."""
        self._call("Opening for writing", path, lambda stores, key: stores)

    def _found_token(self, path: str, put_failure: _Failure) -> str | None:
        """The token of the object that has a name ("" when it has none); None when there is no object."""
        try:
            found = self._call(
                "Looking up", path, lambda stores, key: obstore.get(stores.plain, key, options={"head": True})
            )
        except FileNotFoundError:
            return None
        except HoodieIOException as error:
            raise HoodieIOException(
                f"Creating {path} failed: {put_failure.message}. Whether the file was made is unknown: {error}"
            ) from error
        return str({name.lower(): value for name, value in found.attributes.items()}.get(_TOKEN, ""))

    def _head(self, path: str) -> FileStatus | None:
        if not self._key(path):
            return None
        try:
            return self._status(self._call("Looking up", path, lambda stores, key: obstore.head(stores.plain, key)))
        except FileNotFoundError:
            return None

    def _has_children(self, path: str) -> bool:
        def first(stores: ObjectStores, key: str) -> bool:
            return any(entry["path"] != key for page in obstore.list(stores.plain, key or None) for entry in page)

        found: bool = self._call("Looking up", path, first)
        return found

    def _entries(self, path: str) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = self._call(
            "Listing", path, lambda stores, key: obstore.list(stores.plain, key or None).collect()
        )
        return found

    def _delete_keys(self, keys: list[str], path: str) -> None:
        # S3 takes a thousand keys in one request.
        groups: list[list[str] | str] = [keys] if self.base_path.startswith("s3://") else list(keys)
        for group in groups if keys else []:
            self._call("Deleting", path, _deleting(group), missing_is_done=True)

    def _refuse_file(self, path: str) -> None:
        raise HoodieIOException(f"Listing {path} failed: it is a file")

    @property
    def _has_real_directories(self) -> bool:
        """Azure's hierarchical namespace shows directories as empty objects."""
        return not self.base_path.startswith(("s3://", "gs://"))

    def _key(self, path: str) -> str:
        return split_bucket(path)[1]

    def _path(self, key: str) -> str:
        scheme = storage_path.scheme(self.base_path)
        return f"{scheme}://{split_bucket(self.base_path)[0]}/{key.strip('/')}"

    def _status(self, entry: Mapping[str, Any]) -> FileStatus:
        return FileStatus(
            path=self._path(entry["path"]),
            size_bytes=int(entry["size"]),
            modification_time_ms=int(entry["last_modified"].timestamp() * 1000),
        )

    def _open(self) -> ObjectStores:
        return _shared_stores(self.base_path, self.storage_options, self.retry)

    def _try(self, call: Callable[[], _Answer]) -> _Answer | _Failure:
        try:
            return call()
        except HoodieException:
            raise
        except Exception as error:
            return _failure(error, self._open().secrets)

    def _call(
        self,
        action: str,
        path: str,
        call: Callable[[ObjectStores, str], Any],
        *,
        missing_is_done: bool = False,
    ) -> Any:
        """Make a call that can be repeated.

        Raises:
            FileNotFoundError: There is no such object.
            HoodieIOException: Another definite answer, or too many that pass.
        """
        if split_bucket(path)[0] != split_bucket(self.base_path)[0]:
            raise HoodieIOException(f"{action} {path} failed: it is outside of the bucket of {self.base_path}")
        key = self._key(path)
        attempt = 0
        while True:
            attempt += 1
            answer = self._try(lambda: call(self._open(), key))
            if not isinstance(answer, _Failure):
                return answer
            if answer.is_missing:
                if missing_is_done:
                    return None
                raise FileNotFoundError(f"{action} {path}: there is no such file")
            if not answer.is_transient or attempt > self.retry.max_retries:
                raise _io_error(action, path, _CallError(answer, attempt)) from None
            logger.debug("%s %s failed, attempt %d: %s", action, path, attempt, answer.message)
            time.sleep(self.retry.pause_seconds(attempt))


class _RangeReader:
    """An object as a binary file: each read that the block in memory does not answer is one request of a range."""

    def __init__(self, storage: ObjectStorage, path: str, size: int) -> None:
        self._storage = storage
        self._path = path
        self._size = size
        self._position = 0
        self._block_start = 0
        self._block = b""
        self.closed = False

    def read(self, count: int = -1) -> bytes:
        """Up to so many bytes from the position on."""
        left = max(self._size - self._position, 0)
        count = left if count is None or count < 0 else min(count, left)
        start = self._position - self._block_start
        if count and not 0 <= start <= len(self._block) - count:
            self._fetch(count)
            start = self._position - self._block_start
        self._position += count
        return self._block[start : start + count] if count else b""

    def _fetch(self, count: int) -> None:
        # Near the end of a file lies the footer, which is read from its end backwards in small pieces.
        start = self._position
        length = min(max(count, _READ_AHEAD_BYTES), self._size - start)
        if length < _READ_AHEAD_BYTES:
            start = max(self._size - _READ_AHEAD_BYTES, 0)
            length = self._size - start
        try:
            self._block = self._storage._call(
                "Reading",
                self._path,
                lambda stores, key: obstore.get_range(stores.plain, key, start=start, length=length).to_bytes(),
            )
        except FileNotFoundError as error:
            raise HoodieIOException(f"Reading {self._path} failed: it was deleted while it was being read") from error
        if len(self._block) != length:
            raise HoodieIOException(
                f"Reading {self._path} failed: of {length} bytes from {start} on {len(self._block)} came"
            )
        self._block_start = start

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move the position, as of a file."""
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def tell(self) -> int:
        """The position."""
        return self._position

    def size(self) -> int:
        """The length of the object."""
        return self._size

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def close(self) -> None:
        """Forget what is in memory."""
        self.closed = True
        self._block = b""


class _Upload:
    """An object being written: in one put when it is small, else in parts; see `OutputSink`."""

    def __init__(self, storage: ObjectStorage, path: str) -> None:
        self._storage = storage
        self._path = path
        self._written = 0
        self._file: Any = obstore.open_writer(
            storage._open().streaming, storage._key(path), buffer_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE
        )

    @property
    def closed(self) -> bool:
        """Whether `close` or `abort` was called."""
        return self._file is None

    def write(self, data: object) -> int:
        """Take bytes."""
        if self._file is None:
            raise HoodieIOException(f"Writing {self._path} failed: the stream is closed")
        content = bytes(memoryview(data))  # type: ignore[arg-type]
        self._check(self._storage._try(lambda: self._file.write(content)))
        self._written += len(content)
        return len(content)

    def tell(self) -> int:
        """Bytes taken so far."""
        return self._written

    def flush(self) -> None:
        """Nothing: parts have a least size."""

    def writable(self) -> bool:
        """True until it is closed."""
        return self._file is not None

    def close(self) -> None:
        """Finish the object."""
        file, self._file = self._file, None
        if file is not None:
            self._check(self._storage._try(file.close))

    def abort(self) -> None:
        """Give the upload up; its parts are deleted."""
        file, self._file = self._file, None
        if file is None:
            return
        failure = self._storage._try(lambda: file.__exit__(RuntimeError, RuntimeError("given up"), None))
        if isinstance(failure, _Failure):
            logger.warning(
                "giving up the upload of %s failed, its parts may take space until a lifecycle rule of the bucket "
                "deletes incomplete uploads: %s",
                self._path,
                failure.message,
            )

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            self.abort()

    def _check(self, answer: Any) -> None:
        if isinstance(answer, _Failure):
            attempts = self._storage.retry.max_retries + 1 if answer.is_transient else 1
            raise _io_error("Writing", self._path, _CallError(answer, attempts)) from None


def _failure(error: Exception, secrets: frozenset[str]) -> _Failure:
    """What a failure of the library says; the error itself is dropped, it may hold secrets."""
    text = str(error).partition("\n\nDebug source:")[0]
    kind = type(error).__name__
    status = _STATUS.search(text)
    if kind in ("GenericError", "OSError", "IOError"):
        if status is not None:
            number = int(status.group(1))
            transient = (number >= 500 and number != 501) or number in _TRANSIENT_STATUS
        else:
            transient = any(part in text for part in _TRANSIENT_TEXTS) and "builder error" not in text
    else:
        transient = kind in ("TimeoutError", "ConnectionError", "ConnectionResetError", "JoinError")
    code = re.search(r"<Code>([^<]*)</Code>(?:\s*<Message>([^<]*)</Message>)?", text)
    if code is not None:
        text = f"{text.partition('<')[0].strip(' :')} {code.group(1)}: {code.group(2) or ''}".strip(" :")
    line = " ".join(redact(text, secrets).split())
    return _Failure(line[:_LONGEST_MESSAGE], kind, transient)


def _version_of(found: Mapping[str, Any]) -> str:
    """What a conditional put is given: the object's tag, and its generation where the store has those."""
    return json.dumps({name: found[name] for name in ("e_tag", "version") if found.get(name) is not None})


def _deleting(keys: list[str] | str) -> Callable[[ObjectStores, str], None]:
    return lambda stores, key: obstore.delete(stores.plain, keys)


def _io_error(action: str, path: str, error: _CallError) -> HoodieException:
    """The error that a user sees, with the way out."""
    failure, attempts = error.failure, error.attempts
    message = f"{action} {path} failed after {_times(attempts)}: {failure.message}"
    if failure.kind in ("NotSupportedError", "NotImplementedError") or "501 Not Implemented" in failure.message:
        return HoodieNotSupportedException(
            f"{message}. The store does not do what a timeline needs (a conditional put); put the table on a "
            "store that does, or mount this one as a folder"
        )
    if failure.is_transient:
        way = (
            "The store is out of reach or overloaded: repeat the operation later, or raise "
            "hoodie.filesystem.operation.retry.max_numbers"
        )
    elif failure.kind in ("PermissionDeniedError", "UnauthenticatedError") or _FORBIDDEN.search(failure.message):
        way = "Check the credentials in storage_options and what they are allowed to do"
    elif _MISSING_BUCKET.search(failure.message) or failure.kind == "FileNotFoundError":
        way = "The bucket does not exist; make it, or check the path and the endpoint"
    elif "edirect" in failure.message:
        way = "Give the bucket's region in storage_options"
    else:
        way = "Check the path and the storage_options"
    return HoodieIOException(f"{message}. {way}")


def _times(attempts: int) -> str:
    return "1 attempt" if attempts == 1 else f"{attempts} attempts"


def _shared_stores(base_path: str, options: StorageOptions | None, retry: RetryPolicy) -> ObjectStores:
    """The clients of a bucket in this process."""
    check_options(options)
    key = (storage_path.scheme(base_path), split_bucket(base_path)[0], _frozen(options), retry)
    with _stores_lock:
        found = _stores.get(key)
        if found is not None and (found.valid_until is None or datetime.now(UTC) < found.valid_until):
            return found
        made = open_stores(base_path, options, retry)
        _stores.pop(key, None)
        while len(_stores) >= _STORES_KEPT:
            _stores.pop(next(iter(_stores)))
        _stores[key] = made
        return made


def _frozen(value: Any) -> Any:
    """A hashable stand-in for options; callables and other values by themselves."""
    if isinstance(value, Mapping):
        return tuple(sorted((str(name), _frozen(item)) for name, item in value.items()))
    if isinstance(value, list | tuple | set):
        return tuple(_frozen(item) for item in value)
    return value if callable(value) and _is_hashable(value) else (type(value).__name__, str(value))


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _visible(entries: Iterable[FileStatus]) -> Iterable[FileStatus]:
    return (entry for entry in entries if not is_hidden_from_listings(entry.name))


def _checksum_sibling(path: str) -> str:
    return storage_path.join(storage_path.parent(path), f".{storage_path.file_name(path)}.crc")
