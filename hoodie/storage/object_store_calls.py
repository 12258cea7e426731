"""Calls of an object store, with repetitions and with errors that contain no secrets.

Calls that fail for a passing reason (no connection, a time-out, 408, 429, 5xx) are repeated as `RetryPolicy` says.
Definite answers (403, 404, 412) are not.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import attrs

from hoodie.exception import HoodieException, HoodieIOException, HoodieNotSupportedException
from hoodie.storage import storage_path
from hoodie.storage.object_store_settings import ObjectStores, open_stores, split_bucket
from hoodie.storage.retry import RetryPolicy
from hoodie.storage.storage_options import StorageOptions, check_options, redact

logger = logging.getLogger(__name__)

_Answer = TypeVar("_Answer")

_LONGEST_MESSAGE = 600
_STORES_KEPT = 16

# The library's errors have no attribute for the status of the answer: only their text contains it.
_STATUS = re.compile(r"status code: (\d{3})")
_FORBIDDEN = re.compile(r"status code: 40[13]")
_TRANSIENT_STATUS = frozenset({408, 425, 429})
_TRANSIENT_TEXTS = ("HTTP error:", "error sending request", "error decoding response body", "connection closed")
_MISSING_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|bucket does not exist|container does not exist")

_stores: dict[Any, ObjectStores] = {}
_stores_lock = threading.Lock()


@attrs.frozen
class StoreFailure:
    """A failed call, without secrets.

    Attributes:
        message: One line.
        kind: The name of the library's exception.
        is_transient: Whether the same call may succeed a moment later.
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


@attrs.frozen
class ObjectStoreCalls:
    """Makes the calls of one bucket; picklable.

    Attributes:
        base_path: The normalised base path of a table in it.
        storage_options: See `hoodie.storage.storage_options`; never printed.
        retry: The repetition of a failed call.
    """

    base_path: str
    storage_options: StorageOptions | None = attrs.field(default=None, repr=False)
    retry: RetryPolicy = attrs.field(factory=RetryPolicy)

    def open(self) -> ObjectStores:
        """The clients, shared by the threads of this process."""
        return _shared_stores(self.base_path, self.storage_options, self.retry)

    def attempt(self, call: Callable[[], _Answer]) -> _Answer | StoreFailure:
        """Make a call once; the result is its answer or its failure.

        Args:
            call: The call.
        """
        try:
            return call()
        except HoodieException:
            raise
        except Exception as error:
            return _failure(error, self.open().secrets)

    def call(self, action: str, path: str, call: Callable[[ObjectStores, str], _Answer]) -> _Answer:
        """Make a call that can be repeated.

        Args:
            action: A name of the call, for messages.
            path: Full path of the object.
            call: Given the clients and the object's key.

        Raises:
            FileNotFoundError: There is no such object.
            HoodieIOException: The store gave another definite answer, or passing failures did not end.
        """
        if split_bucket(path)[0] != split_bucket(self.base_path)[0]:
            raise HoodieIOException(f"{action} {path} failed: it is outside of the bucket of {self.base_path}")
        key = split_bucket(path)[1]
        attempts = 0
        while True:
            attempts += 1
            answer = self.attempt(lambda: call(self.open(), key))
            if not isinstance(answer, StoreFailure):
                return answer
            if answer.is_missing:
                raise FileNotFoundError(f"{action} {path}: there is no such file")
            if not answer.is_transient or attempts > self.retry.max_retries:
                raise store_error(action, path, answer, attempts) from None
            logger.debug("%s %s failed, attempt %d: %s", action, path, attempts, answer.message)
            time.sleep(self.retry.pause_seconds(attempts))


def _failure(error: Exception, secrets: frozenset[str]) -> StoreFailure:
    """The failure in an error of the library. The error itself is dropped, because it may contain secrets."""
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
    return StoreFailure(line[:_LONGEST_MESSAGE], kind, transient)


def store_error(action: str, path: str, failure: StoreFailure, attempts: int) -> HoodieException:
    """The error for the user, with advice.

    Args:
        action: The action, for the message.
        path: Full path of the object.
        failure: The last failure of the call.
        attempts: The number of calls.
    """
    message = f"{action} {path} failed after {times(attempts)}: {failure.message}"
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


def times(attempts: int) -> str:
    """A number of attempts in words.

    Args:
        attempts: The number.
    """
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
    """A hashable form of options; callables and other values are kept."""
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
