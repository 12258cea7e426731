"""Tables on S3, Google Cloud Storage and Azure, through the library obstore (the Rust crate object_store).

The timeline is safe there because of these rules:

* A file is created by a conditional put (``If-None-Match: *``; Google: generation 0): the store lets one writer of many
  win. Each put carries a token of its own in the object's metadata. If the answer is lost, or says that the name is
  taken, hoodie reads the object's metadata: with our token the put was ours, and was applied. S3 also refuses a put
  while another one is under way (409). If there is no object then, hoodie puts it again, safe by the same condition.
* A put is atomic: readers see the old object or the new one. Listings are those of the store, never a cache's.
* Data files are uploaded in parts and appear when they are complete.

Calls that fail for a transient reason are repeated, see `hoodie.storage.object_store_calls`.

There are no directories: one exists as long as something is below it. A directory marker (an empty object whose key
ends in ``/``, as Hadoop's connectors make them) is left out of listings.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import attrs
import pyarrow as pa

from hoodie.exception import HoodieIOException
from hoodie.storage import storage_path
from hoodie.storage.local_files import checksum_sibling, is_hidden_from_listings
from hoodie.storage.object_store_calls import ObjectStoreCalls, StoreFailure, store_error, times
from hoodie.storage.object_store_settings import ObjectStores, split_bucket
from hoodie.storage.object_streams import AbortableOutputStream, ObjectReader, ObjectUpload
from hoodie.storage.retry import RetryPolicy
from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.storage.storage_options import StorageOptions
from hoodie.threads import ThreadPool

try:
    import obstore
except ImportError:  # said by open_stores
    obstore = None

logger = logging.getLogger(__name__)

_TOKEN = "hoodietoken"
"""Name of the metadata entry of a conditional put. Letters only: Azure takes identifiers, and S3 changes case."""
_DELETING_THREADS = 16
"""The number of threads of one call, for stores that delete one key at a time."""


@attrs.frozen(eq=False)
class ObjectStorage(HoodieStorage):
    """A bucket of S3, Google Cloud Storage or Azure as home of tables.

    Picklable: clients are made in each process, one for each bucket and set of options, and shared by its threads.

    Attributes:
        base_path: The normalised base path of the table that this storage was opened for.
        storage_options: See `hoodie.storage.storage_options`; never printed.
        retry: The repetition of a failed call.

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
            failure = self._calls.attempt(
                lambda: obstore.put(
                    self._calls.open().plain, key, data, mode="create", attributes={_TOKEN: token}, use_multipart=False
                )
            )
            if not isinstance(failure, StoreFailure):
                return True
            if not failure.is_taken and not failure.is_transient:
                raise store_error("Creating", path, failure, attempt) from None
            found = self._found_token(path, failure)
            if found is not None:
                return found == token
            if attempt > self.retry.max_retries:
                raise HoodieIOException(
                    f"Creating {path} failed after {times(attempt)}, and whether the file will appear is unknown: "
                    f"{failure.message}. Wait until the store answers again, then repeat the operation; "
                    "the next commit rolls back what this one left"
                )
            logger.debug("creating %s failed and left no file, trying again: %s", path, failure.message)
            time.sleep(self.retry.pause_seconds(attempt))

    def replace(self, path: str, data: bytes) -> None:
        """Put a whole file under its name; see `HoodieStorage.replace`."""
        self._calls.call(
            "Replacing", path, lambda stores, key: obstore.put(stores.plain, key, data, use_multipart=False)
        )
        self._delete_keys([self._key(checksum_sibling(path))], path)

    def read_versioned(self, path: str) -> tuple[bytes, str]:
        """A file and its version; see `HoodieStorage.read_versioned`."""

        def get(stores: ObjectStores, key: str) -> tuple[bytes, str]:
            found = obstore.get(stores.plain, key)
            version = _version_of(found.meta)
            return found.bytes().to_bytes(), version

        return self._calls.call("Reading", path, get)

    def replace_version(self, path: str, data: bytes, version: str | None) -> str | None:
        """Replace a version of a file by a conditional put; see `HoodieStorage.replace_version`."""
        key = self._key(path)
        mode = "create" if version is None else json.loads(version)
        attempt = 0
        while True:
            attempt += 1
            answer = self._calls.attempt(
                lambda: obstore.put(self._calls.open().plain, key, data, mode=mode, use_multipart=False)
            )
            if not isinstance(answer, StoreFailure):
                return _version_of(answer)
            if not answer.is_taken and not answer.is_transient and not answer.is_missing:
                raise store_error("Replacing a version of", path, answer, attempt) from None
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
                raise store_error("Replacing a version of", path, answer, attempt) from None
            time.sleep(self.retry.pause_seconds(attempt))

    def read(self, path: str) -> bytes:
        """The whole content of a file; see `HoodieStorage.read`."""
        content: bytes = self._calls.call(
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

    def is_file(self, path: str) -> bool:
        """Whether a file has that name; see `HoodieStorage.is_file`."""
        found = self._head(path)
        if found is None:
            return False
        return bool(found.size_bytes) or not self._has_real_directories or not self._has_children(path)

    @property
    def is_remote(self) -> bool:
        """True; see `HoodieStorage.is_remote`."""
        return True

    def list_directory(self, path: str) -> list[FileStatus]:
        """Direct children; see `HoodieStorage.list_directory`."""
        listed = self._calls.call(
            "Listing", path, lambda stores, key: obstore.list_with_delimiter(stores.plain, key or None)
        )
        children = [FileStatus(self._path(prefix), 0, 0, is_directory=True) for prefix in listed["common_prefixes"]]
        directories = {child.path for child in children} | {path}
        files = (self._status(entry) for entry in listed["objects"])
        children += [file for file in files if file.size_bytes or file.path not in directories]
        if not children and self._may_be_file(path) and self._head(path) is not None:
            self._refuse_file(path)
        return sorted(_visible(children), key=lambda child: child.name)

    def list_files(self, path: str) -> list[FileStatus]:
        """All files below a directory; see `HoodieStorage.list_files`."""
        files = [self._status(entry) for entry in self._entries(path)]
        if not files and self._may_be_file(path) and self._head(path) is not None:
            self._refuse_file(path)
        directories = {path} | {storage_path.parent(file.path) for file in files}
        files = [file for file in files if file.size_bytes or file.path not in directories]
        return sorted(_visible(files), key=lambda file: file.path)

    def sample_files(self, path: str, limit: int) -> list[str]:
        """Some files below a directory, of one page; see `HoodieStorage.sample_files`."""

        def first_page(stores: ObjectStores, key: str) -> list[Mapping[str, Any]]:
            pages = obstore.list(stores.plain, key or None, chunk_size=limit)
            return list(next(iter(pages), []))

        files = [self._status(entry) for entry in self._calls.call("Listing", path, first_page)]
        # Other programs make empty objects as markers of directories.
        return [file.path for file in files if file.size_bytes][:limit]

    def create_directory(self, path: str) -> None:
        """Nothing to do: a directory exists as long as there is an object below it."""

    def move_file(self, source: str, target: str) -> None:
        """Let the store copy a file, and delete the old one; see `HoodieStorage.move_file`."""
        found, new_key = self._head(source), self._key(target)
        if found is None:
            raise FileNotFoundError(f"Moving {source}: there is no such file")
        try:
            self._calls.call("Copying", source, lambda stores, key: obstore.copy(stores.plain, key, new_key))
            copied = self._head(target)
        except HoodieIOException as error:
            # S3 copies up to 5 GB in one call.
            logger.info("%s; its bytes go through this process instead", error)
            copied = None
        if copied is None or copied.size_bytes != found.size_bytes:
            # A store that does not know copies may have put an empty object.
            super().move_file(source, target)
            return
        self._delete_keys([self._key(source)], source)

    def delete_file(self, path: str) -> bool:
        """Delete a file; see `HoodieStorage.delete_file`."""
        if self._head(path) is None:
            if self._has_children(path):
                raise HoodieIOException(f"Deleting {path} failed: it is a directory")
            return False
        keys = [self._key(path)]
        if not is_hidden_from_listings(storage_path.file_name(path)):
            keys.append(self._key(checksum_sibling(path)))
        self._delete_keys(keys, path)
        return True

    def delete_files(self, paths: Iterable[str]) -> None:
        """Delete many files; see `HoodieStorage.delete_files`."""
        keys: list[str] = []
        for path in paths:
            if split_bucket(path)[0] != split_bucket(self.base_path)[0]:
                raise HoodieIOException(f"Deleting {path} failed: it is outside of the bucket of {self.base_path}")
            keys += (self._key(path), self._key(checksum_sibling(path)))
        self._delete_keys(keys, self.base_path)

    def delete_directory(self, path: str) -> bool:
        """Delete all below a directory; see `HoodieStorage.delete_directory`.

        A directory marker of another program stays: the library cannot name its key.
        """
        keys = [str(entry["path"]) for entry in self._entries(path)]
        own_key = self._key(path)
        if not keys:
            if self._may_be_file(path) and self._head(path) is not None:
                raise HoodieIOException(f"Deleting the directory {path} failed: it is a file")
            return False
        self._delete_keys([key for key in keys if key != own_key], path)
        return True

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file for random access; see `HoodieStorage.open_input_file`."""
        return self._opened(path, is_sequential=False)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        """Open a file to be read from its beginning on; see `HoodieStorage.open_input_stream`."""
        return self._opened(path, is_sequential=True)

    def _opened(self, path: str, *, is_sequential: bool) -> pa.NativeFile:
        found = self._head(path)
        if found is None:
            raise FileNotFoundError(f"Opening {path}: there is no such file")
        return pa.PythonFile(ObjectReader(self._calls, path, found.size_bytes, is_sequential=is_sequential), mode="r")

    def open_output_stream(self, path: str) -> pa.NativeFile:
        """Open a data file for writing; see `HoodieStorage.open_output_stream`.

        The file appears when the stream is closed; `hoodie.storage.storage.abort_stream` drops it.
        """
        # Make the clients, so that wrong options fail before the first byte.
        self._calls.call("Opening for writing", path, lambda stores, key: stores)
        return AbortableOutputStream(ObjectUpload(self._calls, path), mode="w")

    @property
    def _calls(self) -> ObjectStoreCalls:
        return ObjectStoreCalls(self.base_path, self.storage_options, self.retry)

    def _found_token(self, path: str, put_failure: StoreFailure) -> str | None:
        """The token of the object that has a name ("" when it has none); None when there is no object."""
        try:
            found = self._calls.call(
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
            return self._status(
                self._calls.call("Looking up", path, lambda stores, key: obstore.head(stores.plain, key))
            )
        except FileNotFoundError:
            return None

    def _has_children(self, path: str) -> bool:
        def first(stores: ObjectStores, key: str) -> bool:
            return any(entry["path"] != key for page in obstore.list(stores.plain, key or None) for entry in page)

        return self._calls.call("Looking up", path, first)

    def _entries(self, path: str) -> list[Mapping[str, Any]]:
        return self._calls.call("Listing", path, lambda stores, key: obstore.list(stores.plain, key or None).collect())

    def _delete_keys(self, keys: list[str], path: str) -> None:
        # S3 takes a thousand keys in one request; elsewhere a missing one would stop the others.
        groups: list[list[str] | str] = [keys] if self.base_path.startswith("s3://") else list(keys)

        def delete(group: list[str] | str) -> None:
            with suppress(FileNotFoundError):
                self._calls.call("Deleting", path, lambda stores, key: obstore.delete(stores.plain, group))

        if len(groups) <= 2:
            for group in groups if keys else []:
                delete(group)
            return
        with ThreadPool(min(_DELETING_THREADS, len(groups)), "hoodie-delete") as pool:
            for _ in pool.map(delete, groups):
                pass

    def _refuse_file(self, path: str) -> None:
        raise HoodieIOException(f"Listing {path} failed: it is a file")

    @staticmethod
    def _may_be_file(path: str) -> bool:
        """Whether a directory without children may be a file that a user named; names in ``.hoodie`` are hoodie's."""
        return f"/{storage_path.METAFOLDER_NAME}/" not in f"{path}/"

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


def _visible(entries: Iterable[FileStatus]) -> Iterable[FileStatus]:
    return (entry for entry in entries if not is_hidden_from_listings(entry.name))


def _version_of(found: Mapping[str, Any]) -> str:
    """The condition of a put: the object's tag, and its generation in stores that have generations."""
    return json.dumps({name: found[name] for name in ("e_tag", "version") if found.get(name) is not None})
