"""Transformers one after another, with properties of their own by ids.

Hudi: org.apache.hudi.utilities.transform.ChainedTransformer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import attrs
import pyarrow as pa

from hoodie.exception import HoodieConfigException, HoodieException, HoodieTransformException
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.transform.transformer import Transformer
from hoodie.utilities.user_code import error_told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_R = TypeVar("_R")


@attrs.frozen(eq=False)
class NamedTransformer:
    """A part of a chain.

    Attributes:
        name: The name that the user gave, for messages.
        transformer: The transformer.
        identifier: The id of its properties; None without one.
    """

    name: str
    transformer: Transformer
    identifier: str | None = None


class ChainedTransformer(Transformer):
    """Gives the rows to its transformers, one after another. An error names the transformer that failed.

    With ids, a property ``K.<id>`` is ``K`` for the transformer of that id, and those of other ids are hidden from it.

    Hudi: org.apache.hudi.utilities.transform.ChainedTransformer.

    Args:
        transformers: The parts, in order. Either all have an id or none has.

    Raises:
        HoodieConfigException: Some have an id and some have none; or two have the same one.
    """

    def __init__(self, transformers: Sequence[NamedTransformer]) -> None:
        ids = [one.identifier for one in transformers if one.identifier is not None]
        names = ", ".join(one.name for one in transformers)
        if ids and len(ids) < len(transformers):
            bare = [one.name for one in transformers if one.identifier is None]
            raise HoodieConfigException(
                f"transformers {names}: either all have an id or none has; without one: {', '.join(bare)}"
            )
        if twins := sorted({one for one in ids if ids.count(one) > 1}):
            raise HoodieConfigException(
                f"transformers {names}: the id {', '.join(twins)} is there twice: each needs its own"
            )
        self.transformers = tuple(transformers)

    def apply(self, table: pa.Table, properties: StreamerProperties) -> pa.Table:
        """See `Transformer.apply`.

        Raises:
            HoodieTransformException: A transformer fails, or gives anything but rows.
        """
        for one in self.transformers:
            own = self._properties_of(one, properties)
            table = _guarded(one, partial(_apply, one.transformer, table, own))
        return table

    def apply_to_frame(self, frame: DataFrame, properties: StreamerProperties) -> DataFrame:
        """See `Transformer.apply_to_frame`.

        Raises:
            HoodieTransformException: A transformer fails.
        """
        for one in self.transformers:
            own = self._properties_of(one, properties)
            frame = _guarded(one, partial(_apply_to_frame, one.transformer, frame, own))
        return frame

    def _properties_of(self, one: NamedTransformer, properties: StreamerProperties) -> StreamerProperties:
        if one.identifier is None:
            return properties
        return properties_of_id(properties, one.identifier, [str(other.identifier) for other in self.transformers])


def properties_of_id(properties: StreamerProperties, identifier: str, all_ids: Iterable[str]) -> StreamerProperties:
    """The properties as the transformer of an id sees them.

    Args:
        properties: The properties of the run.
        identifier: The id.
        all_ids: The ids of the chain.

        >>> given = StreamerProperties({"sql.a": "1", "sql.b": "2", "x": "3"})
        >>> dict(properties_of_id(given, "a", ["a", "b"]))
        {'x': '3', 'sql': '1'}
    """
    ids = set(all_ids)
    rest = {key: value for key, value in properties.given.items() if key.rpartition(".")[2] not in ids}
    own = {
        key.removesuffix(f".{identifier}"): value
        for key, value in properties.given.items()
        if key.endswith(f".{identifier}")
    }
    return StreamerProperties(rest).with_(own)


def _guarded(one: NamedTransformer, call: Callable[[], _R]) -> _R:
    try:
        return call()
    except (HoodieTransformException, HoodieConfigException) as error:
        raise type(error)(f"transformer {one.name}: {error}") from error
    except HoodieException:
        raise
    except Exception as error:  # The code of a user's may raise anything.
        raise HoodieTransformException(f"transformer {one.name} failed ({error_told(error)})") from error


def _apply(transformer: Transformer, table: pa.Table, properties: StreamerProperties) -> pa.Table:
    changed: Any = transformer.apply(table, properties)
    if isinstance(changed, pa.Table):
        return changed
    if isinstance(changed, pa.RecordBatch):
        return pa.Table.from_batches([changed])
    if hasattr(changed, "__arrow_c_stream__"):
        return pa.table(changed)
    raise HoodieTransformException(f"it returned {_kind(changed)}: return an Arrow table")


def _apply_to_frame(transformer: Transformer, frame: DataFrame, properties: StreamerProperties) -> DataFrame:
    changed: Any = transformer.apply_to_frame(frame, properties)
    if hasattr(changed, "mapInArrow"):
        return cast("DataFrame", changed)
    raise HoodieTransformException(f"it returned {_kind(changed)}: return a DataFrame of Spark")


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__module__}.{type(value).__qualname__}"
