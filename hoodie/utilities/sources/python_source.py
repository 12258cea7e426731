"""Sources that users write in Python, without a base class.

A source is a class with ``fetch(position, limit)``, or a function of that form. The position is the text that the last
call gave, None at first; the limit is that of ``--source-limit``, None without one. It returns one of these:

    (rows, position)     rows: an Arrow table, batch or stream, anything that has ``__arrow_c_stream__`` (a frame of
                         polars, pandas or DuckDB), an iterator of tables or batches, or None for nothing new
    a generator          yields tables or batches, and returns the position at its end

A position is text or a whole number. The same call must give the same rows again, as long as no commit holds the
position after them. A stream is read while the table is written, so memory holds some batches. The position of a
generator is known at its end only, so its rows are kept in a temporary file until then.

The class is made with the properties as a dict, or without arguments. It may have ``schema`` (the columns, for
iterators without a first batch), ``on_commit(position)`` and ``close()``.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final

import attrs
import pyarrow as pa

from hoodie.exception import (
    HoodieConfigException,
    HoodieException,
    HoodieReadFromSourceException,
    HoodieSourceTimeoutException,
)
from hoodie.utilities.sources.checkpoint import Checkpoint
from hoodie.utilities.sources.source import DecodedBatch, InputBatch, Source, SourceContext, SourceRead
from hoodie.utilities.user_code import error_told, load_attribute, make_object

BATCH_ROWS: Final = 20_000
"""The rows of a batch at most."""


@attrs.frozen
class PythonSourceName:
    """The class or function of a source, and the properties that it is made with. Picklable.

    Attributes:
        module: The dotted name of the module.
        attribute: The name there.
        properties: Key -> text. Not shown, as they may hold secrets.
        flag: The flag that names it, for messages.
    """

    module: str
    attribute: str
    properties: dict[str, str] = attrs.field(repr=False)
    flag: str = "--source-class"

    def __str__(self) -> str:
        return f"{self.module}:{self.attribute}"

    def make(self) -> Any:
        """Make the user's object: one with ``fetch``.

        Raises:
            HoodieConfigException: There is no such class or function, it has no ``fetch``, or it cannot be made.
        """
        given = f"{self.flag} = {self}"
        found = load_attribute(self.module, self.attribute, given)
        if isinstance(found, type):
            if not callable(getattr(found, "fetch", None)):
                raise HoodieConfigException(
                    f"{given} has no fetch(position, limit): see docs/streamer.md for sources in Python"
                )
            arguments = (dict(self.properties),) if _takes_argument(found) else ()
            return make_object(found, given, *arguments)
        if callable(found) and not hasattr(found, "fetch"):
            return _Function(found)
        if hasattr(found, "fetch"):
            return found
        raise HoodieConfigException(f"{given} is {type(found).__name__}: name a class with fetch(position, limit)")


class PythonSource(Source):
    """A source that a user wrote; see the module.

    Args:
        context: The context of the run.
        name: The class or function.
    """

    def __init__(self, context: SourceContext, name: PythonSourceName) -> None:
        super().__init__(context)
        self.name = name
        self._user = name.make()

    def fetch(self, checkpoint: Checkpoint | None, limit: int | None) -> InputBatch:
        """See `Source.fetch`.

        Raises:
            HoodieReadFromSourceException: The user's code fails, or returns something else than rows and a position.
            HoodieSourceTimeoutException: The user's code raises TimeoutError.
        """
        position = checkpoint.position if checkpoint is not None else None
        fetched = _fetch(self._user, self.name, position, limit)
        after = None if fetched.position is None else Checkpoint(fetched.position)
        if fetched.schema is None:
            return InputBatch(after)
        if position is not None and fetched.position == position:
            raise HoodieReadFromSourceException(
                f"source {self.name}: fetch returned rows and the position {position!r}, which it was asked for: "
                "return the position after the rows"
            )
        read = PythonRead(self.name, position, limit, fetched.schema, fetched.position, fetched.rows)
        return InputBatch(after, [read], fetched.schema, size_bytes=fetched.size_bytes, rows=fetched.row_count)

    def on_commit(self, checkpoint: Checkpoint) -> None:
        """See `Source.on_commit`."""
        if (heard := getattr(self._user, "on_commit", None)) is not None:
            heard(checkpoint.position)

    def close(self) -> None:
        """See `Source.close`."""
        if (close := getattr(self._user, "close", None)) is not None:
            close()


class PythonRead(SourceRead):
    """The rows of one call of the user's ``fetch``.

    A table travels to tasks as it is. A stream does not: the task makes the source anew and calls ``fetch`` with the
    same position, as does a second reading here; the position after the rows must then be the same.

    Args:
        name: The source.
        position: The position that the rows begin at.
        limit: The limit of the call.
        schema: The columns.
        end: The position after the rows.
        rows: The rows that were fetched; None for those of another call.
    """

    def __init__(
        self,
        name: PythonSourceName,
        position: str | None,
        limit: int | None,
        schema: pa.Schema,
        end: str | None,
        rows: _Rows | None,
    ) -> None:
        self.name = name
        self.position = position
        self.limit = limit
        self.schema = schema
        self.end = end
        self._rows = rows

    def batches(self) -> Iterator[DecodedBatch]:
        """See `SourceRead.batches`.

        Raises:
            HoodieReadFromSourceException: The user's code fails; batches differ in their columns; or a second call
                gives another position.
        """
        rows, user = self._rows, None
        if rows is None or (rows.is_read and rows.reads_once):
            user = self.name.make()
            fetched = _fetch(user, self.name, self.position, self.limit)
            if fetched.position != self.end:
                raise HoodieReadFromSourceException(
                    f"source {self.name}: fetch({self.position!r}, {self.limit}) was called again, and gives the "
                    f"position {fetched.position!r} after its rows instead of {self.end!r}: the same call must give "
                    "the same rows, or return an Arrow table, which is kept"
                )
            rows = fetched.rows
        try:
            for batch in _guarded(rows.batches() if rows is not None else (), self.name):
                for start in range(0, batch.num_rows, BATCH_ROWS):
                    yield DecodedBatch(_conform(batch.slice(start, BATCH_ROWS), self.schema, self.name))
        finally:
            if user is not None and hasattr(user, "close"):
                user.close()

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if self._rows is not None and not self._rows.is_picklable:
            state["_rows"] = None
        return state


class _Function:
    """A source that is one function."""

    def __init__(self, function: Callable[[str | None, int | None], Any]) -> None:
        self.fetch = function


class _Rows:
    """Fetched rows.

    Args:
        data: A table, or an iterator of batches.
        reads_once: Whether they can be read only once.
    """

    is_picklable = False

    def __init__(self, data: Any, *, reads_once: bool) -> None:
        self._data = data
        self.reads_once = reads_once
        self.is_read = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        self.is_read = True
        return iter(self._data)


class _TableRows(_Rows):
    is_picklable = True

    def __init__(self, table: pa.Table) -> None:
        super().__init__(table, reads_once=False)

    def batches(self) -> Iterator[pa.RecordBatch]:
        return iter(self._data.to_batches())


class _SpooledRows(_Rows):
    """Batches in a temporary file, which is deleted with the object."""

    def __init__(self, path: str) -> None:
        super().__init__(path, reads_once=False)
        weakref.finalize(self, _delete, path)

    def batches(self) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(self._data) as file, pa.ipc.open_stream(file) as reader:
            yield from reader


@attrs.frozen(eq=False)
class _Fetched:
    """The answer of a user's fetch.

    Attributes:
        position: The position after the rows.
        rows: The rows; None for none.
        schema: Their columns; None without rows.
    """

    position: str | None
    rows: _Rows | None = None
    schema: pa.Schema | None = None
    row_count: int | None = None
    size_bytes: int | None = None


def _fetch(user: Any, name: PythonSourceName, position: str | None, limit: int | None) -> _Fetched:
    with _errors_of(name):
        answer = user.fetch(position, limit)
    if inspect.isgenerator(answer):
        return _spooled(answer, user, name)
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise HoodieReadFromSourceException(
            f"source {name}: fetch returned {_kind(answer)}: return (rows, position), or be a generator of batches "
            "that returns the position"
        )
    rows, after = answer
    after = _position(after, name)
    if rows is None:
        return _Fetched(after)
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if isinstance(rows, pa.Table):
        if not rows.num_rows:
            return _Fetched(after)
        return _Fetched(after, _TableRows(rows), rows.schema, rows.num_rows, rows.nbytes)
    if hasattr(rows, "__arrow_c_stream__"):
        with _errors_of(name):
            rows = pa.RecordBatchReader.from_stream(rows)
        if after != position:
            return _Fetched(after, _Rows(rows, reads_once=True), rows.schema)
        # Nothing new comes as a stream without rows, too.
    if not isinstance(rows, Iterable):
        raise HoodieReadFromSourceException(
            f"source {name}: the rows are {_kind(rows)}: give an Arrow table or stream, or an iterator of batches"
        )
    batches = _guarded(rows, name)
    first = next(batches, None)
    if first is None:
        return _Fetched(after)
    schema = getattr(user, "schema", None) or first.schema
    return _Fetched(after, _Rows(chain([first], batches), reads_once=True), schema)


def _spooled(generator: Any, user: Any, name: PythonSourceName) -> _Fetched:
    """Run a generator to its end, which tells the position."""
    batches = _Returning(generator)
    guarded = _guarded(batches, name)
    first = next(guarded, None)
    if first is None:
        return _Fetched(_position(batches.returned, name))
    schema = getattr(user, "schema", None) or first.schema
    handle, path = tempfile.mkstemp(suffix=".arrow", prefix="hoodie-source-")
    os.close(handle)
    rows = _SpooledRows(path)
    count = 0
    with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, schema) as writer:
        for batch in chain([first], guarded):
            writer.write_batch(_conform(batch, schema, name))
            count += batch.num_rows
    return _Fetched(_position(batches.returned, name), rows, schema, count)


class _Returning:
    """An iterator that keeps what a generator returns."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator
        self.returned: Any = None

    def __iter__(self) -> Iterator[Any]:
        self.returned = yield from self._generator


def _guarded(rows: Iterable[Any], name: PythonSourceName) -> Iterator[pa.RecordBatch]:
    """The batches with rows; an error of the user's code names the source."""
    with _errors_of(name):
        for item in rows:
            if isinstance(item, pa.RecordBatch):
                found = [item]
            elif isinstance(item, pa.Table) or hasattr(item, "__arrow_c_stream__"):
                found = pa.table(item).to_batches()
            else:
                raise HoodieReadFromSourceException(
                    f"source {name}: it gave {_kind(item)} among its rows: give Arrow tables or batches"
                )
            yield from (batch for batch in found if batch.num_rows)


def _conform(batch: pa.RecordBatch, schema: pa.Schema, name: PythonSourceName) -> pa.RecordBatch:
    """A batch with the columns of the first one, in its order."""
    if batch.schema == schema:
        return batch
    if sorted(batch.schema.names) == sorted(schema.names):
        with contextlib.suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
            table = pa.Table.from_batches([batch]).select(schema.names).cast(schema)
            return table.combine_chunks().to_batches()[0]
    raise HoodieReadFromSourceException(
        f"source {name}: a batch has the columns {_columns(batch.schema)}, and the first one has {_columns(schema)}: "
        "give all batches the same columns and types"
    )


@contextlib.contextmanager
def _errors_of(name: PythonSourceName) -> Iterator[None]:
    try:
        yield
    except HoodieException:
        raise
    except TimeoutError as error:
        raise HoodieSourceTimeoutException(f"source {name} does not answer: {error}") from error
    except Exception as error:  # The user's code may raise anything.
        raise HoodieReadFromSourceException(f"source {name} failed ({error_told(error)})") from error


def _position(given: Any, name: PythonSourceName) -> str | None:
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    raise HoodieReadFromSourceException(
        f"source {name}: the position is {_kind(given)}: give text, such as that of json.dumps, or a whole number"
    )


def _takes_argument(found: type[Any]) -> bool:
    """Whether the constructor takes the properties."""
    if found.__init__ is object.__init__:
        return False
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):  # of C
        return False
    kinds = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
    )
    return any(parameter.kind in kinds for parameter in parameters)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__module__}.{type(value).__qualname__}"


def _delete(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
