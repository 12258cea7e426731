"""Make keys with a user's own class.

``hoodie.datasource.write.keygenerator.class`` names a subclass of `UserKeyGenerator` (columns) or
`UserRecordKeyGenerator` (one record at a time), as ``package.module.Class`` or as the class itself::

    class ByInitial(UserRecordKeyGenerator):
        def record_key(self, record):
            return record["name"].lower()

        def partition_path(self, record):
            return record["name"][0].lower()

    HoodieTableMetaClient.init_table(path, table_name="people", record_key_fields="name", key_generator=ByInitial)
    HoodieWriteConfig.from_properties(path, {"hoodie.datasource.write.keygenerator.class": ByInitial})

The table stores the name, and every writer must name the class again: hoodie imports nothing only because a table names
it. Hudi can read such a table, but cannot write to it.

Hudi: org.apache.hudi.keygen.KeyGenerator of the type USER_PROVIDED.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.util.class_loading import create_object
from hoodie.common.util.shown_value import short_repr
from hoodie.exception import HoodieKeyException
from hoodie.keygen.base_key_generator import BadRows, KeyGenerator, KeyProblem
from hoodie.keygen.partition_path_encoding import usable_paths
from hoodie.keygen.value_strings import nan_rows


class UserKeyGenerator(ABC):
    """Makes the keys of whole batches. Subclass it; instances are pickled to the tasks of a write.

    The same row must always give the same key and path: keys are made again for deletes, and when a task runs again.

    Args:
        properties: The writer's and the table's properties; the table's take precedence.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.properties = properties

    @abstractmethod
    def record_keys(self, batch: pa.RecordBatch) -> pa.Array | Sequence[str | None]:
        """The record key of each row.

        Args:
            batch: Rows with the table's columns and types; for a delete, the columns that the caller passed.

        Returns:
            One text for each row. A null or empty text refuses the write, and the error shows the row. NaN in an array
            of floats counts as null.

        Raises:
            Exception: Something is wrong with the batch; the write fails with `HoodieKeyException`.
        """

    @abstractmethod
    def partition_paths(self, batch: pa.RecordBatch) -> pa.Array | Sequence[str | None]:
        """The partition path of each row, relative to the table; "" for the table's folder. See `record_keys`."""


class UserRecordKeyGenerator(UserKeyGenerator):
    """Makes the key of one record at a time: easier to write, but much slower. Subclass it.

    An exception for a record refuses the write with `HoodieKeyException`, which shows the record and the exception.
    """

    @abstractmethod
    def record_key(self, record: Mapping[str, Any]) -> str:
        """The record key of a record, given as Python values by column."""

    @abstractmethod
    def partition_path(self, record: Mapping[str, Any]) -> str:
        """The partition path of a record, relative to the table; "" for the table's folder."""

    def record_keys(self, batch: pa.RecordBatch) -> pa.Array:
        """See `record_key`."""
        return pa.array([self.record_key(record) for record in batch.to_pylist()], pa.string())

    def partition_paths(self, batch: pa.RecordBatch) -> pa.Array:
        """See `partition_path`."""
        return pa.array([self.partition_path(record) for record in batch.to_pylist()], pa.string())


def load_user_key_generator(name: str, properties: Mapping[str, str]) -> UserKeyGenerator:
    """Import and create the key generator of a name.

    Args:
        name: ``package.module.Class``; it must be possible to import the module here.
        properties: The argument for its constructor.

    Raises:
        HoodieConfigException: There is no such class, it is not a subclass of `UserKeyGenerator`, or creating it fails.
    """
    return create_object(name, "hoodie.datasource.write.keygenerator.class", UserKeyGenerator, properties)


@attrs.frozen
class KeyGeneratorOfUser(KeyGenerator):
    """Wraps a user's key generator and checks the keys and paths that it returns.

    Attributes:
        user: The user's object.
    """

    user: UserKeyGenerator = attrs.field(kw_only=True)

    @property
    def reads_all_columns(self) -> bool:
        return True

    def bind(self, schema: pa.Schema) -> KeyGenerator:
        """Return this generator unchecked: the columns that the user's class reads are not known."""
        return self

    def record_keys(self, batch: pa.RecordBatch) -> pa.StringArray:
        keys = self._called(batch, "record_keys")
        return pc.if_else(pc.equal(keys, ""), pa.scalar(None, pa.string()), keys)

    def partition_paths(self, batch: pa.RecordBatch) -> pa.StringArray:
        return usable_paths(self._called(batch, "partition_paths"))

    def problems(self, batch: pa.RecordBatch) -> Iterator[KeyProblem]:
        """See `KeyGenerator.problems`; all columns take part."""
        for method, made in (
            ("record_keys", self.record_keys(batch)),
            ("partition_paths", self.partition_paths(batch)),
        ):
            missing = made.is_null()
            if pc.any(missing).as_py():
                wish = "key" if method == "record_keys" else "path below the table's folder"
                reason = f"got no {wish} from {type(self.user).__name__}.{method}"
                yield KeyProblem(tuple(batch.schema.names), reason, missing)

    def _describe(self, batch: pa.RecordBatch, problem: KeyProblem) -> BadRows:
        """Rows without a key or without a usable path, described with all their columns."""
        rows = batch.filter(problem.rows)
        examples = tuple(short_repr(row) for row in rows.slice(0, 3).to_pylist())
        return BadRows(problem.columns, problem.reason, rows.num_rows, examples)

    def _called(self, batch: pa.RecordBatch, method: str) -> pa.StringArray:
        function: Callable[[pa.RecordBatch], Any] = getattr(self.user, method)
        try:
            made = function(batch)
            strings = made if isinstance(made, pa.Array) else pa.array(made, pa.string())
            if not pa.types.is_string(strings.type):
                is_nan = nan_rows(strings)
                strings = strings.cast(pa.string())
                if is_nan is not None:
                    strings = pc.if_else(is_nan, pa.scalar(None, pa.string()), strings)
        except Exception as error:
            raise HoodieKeyException(self._failure(batch, method, error)) from error
        if len(strings) != batch.num_rows:
            raise HoodieKeyException(
                f"{type(self.user).__name__}.{method} returned {len(strings)} values for {batch.num_rows} rows"
            )
        return strings

    def _failure(self, batch: pa.RecordBatch, method: str, error: Exception) -> str:
        text = f"the key generator {type(self.user).__name__} failed in {method}: {type(error).__name__}: {error}"
        if isinstance(self.user, UserRecordKeyGenerator):
            single = self.user.record_key if method == "record_keys" else self.user.partition_path
            for record in batch.to_pylist():
                try:
                    single(record)
                except Exception as reason:
                    begin = text.rpartition(f"{type(error).__name__}: ")[0]
                    return f"{begin}{short_repr(reason)} for the record {short_repr(dict(record))}"
        return text
