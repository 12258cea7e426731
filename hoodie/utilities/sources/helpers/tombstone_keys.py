"""The record keys of tombstones: messages that have a key and no value.

    b                            a text: the one field of the record key
    "b"                          a JSON text, likewise
    {"id": "b", "more": 1}       a JSON object with the fields of the record key
    00 0000 0007 | 02 62         a key of a schema registry: a zero, the id of its schema, and Avro or JSON

Keys of a registry are read only if a property says that all keys are such: the eight bytes of a number begin with a
zero too, and a key that is taken for another one deletes another record.

Hudi does not have it.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.avro.schema_converters import to_avro
from hoodie.exception import HoodieConfigException, HoodieSchemaException
from hoodie.utilities.config.kafka_source_config import TOMBSTONE_KEYS, KafkaSourceConfig, TombstoneKeyForm, Tombstones
from hoodie.utilities.config.schema_registry_config import REGISTRY_URL, SchemaRegistryClientConfig
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.schema.schema_registry_client import (
    AVRO,
    RegisteredSchema,
    SchemaRegistryClient,
    UnknownSchemaException,
    parse_hosts,
)
from hoodie.utilities.sources.helpers.avro_decoder import AvroDecoder
from hoodie.utilities.sources.helpers.message_decoder import Messages

_FRAME_BYTES: Final = 5
_JSON: Final = "JSON"
_NAME: Final = "hoodie_record_key"


@attrs.frozen(eq=False)
class FoundKeys:
    """The record keys of some tombstones.

    Attributes:
        rows: The columns of the record key.
        places: int64: the number of the message of each row, in any order.
        failures: The others: the number of the message -> the reason.
    """

    rows: pa.RecordBatch
    places: npt.NDArray[np.int64]
    failures: dict[int, str]


@attrs.frozen
class TombstoneKeys:
    """Reads the record keys of tombstones. Picklable.

    Attributes:
        fields: The fields of the record key.
        registry: The schema registry that has the schemas of all keys; None for keys that are texts.
    """

    fields: tuple[str, ...]
    registry: SchemaRegistryClient | None = None

    def read(self, messages: Messages, columns: pa.Schema) -> FoundKeys:
        """The record keys of the tombstones among some messages.

        Args:
            messages: The messages.
            columns: Columns, among them those of the record key.

        Raises:
            HoodieSourceTimeoutException: The schema registry does not answer.
            HoodieSchemaProviderException: The schema registry refuses to answer.
        """
        schema = pa.schema([columns.field(name).with_nullable(True) for name in self.fields])
        found: list[dict[str, Any]] = []
        places: list[int] = []
        failures: dict[int, str] = {}
        in_avro: list[int] = []
        for place, value in enumerate(messages.values):
            if value is not None:
                continue
            try:
                text = self._text_of(messages.keys[place])
                if text is None:
                    in_avro.append(place)
                    continue
                key = self._record_key(text, schema)
                # Converted here, so that a wrong key is told by its message.
                for name, part in key.items():
                    pa.array([part], schema.field(name).type)
            except (ValueError, TypeError, ArithmeticError, RecursionError, pa.ArrowException) as error:
                failures[place] = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
            else:
                found.append(key)
                places.append(place)
        rows = pa.RecordBatch.from_pylist(found, schema=schema)
        if not in_avro:
            return FoundKeys(rows, np.array(places, np.int64), failures)
        avro = self._of_avro(messages, in_avro, schema)
        joined = pa.Table.from_batches([rows, avro.rows], schema).combine_chunks().to_batches()
        return FoundKeys(
            joined[0] if joined else rows,
            np.concatenate([np.array(places, np.int64), avro.places]),
            failures | avro.failures,
        )

    def _text_of(self, key: bytes | None) -> str | None:
        """The text of a key; None for one of Avro."""
        if key is None:
            raise ValueError("it has none")
        if self.registry is None:
            if key.startswith(b"\0"):
                raise ValueError(
                    "it begins with a zero, as keys in binary do and those of a schema registry: give "
                    f"{TOMBSTONE_KEYS} = registry if all keys are such, or write keys as text or JSON"
                )
            return key.decode("utf-8")
        if len(key) < _FRAME_BYTES or key[0]:
            raise ValueError(
                f"it has {len(key)} bytes and no zero with a schema id before them, and {TOMBSTONE_KEYS} is registry"
            )
        schema_id = int.from_bytes(key[1:_FRAME_BYTES])
        try:
            kind = self.registry.load_schema(schema_id).schema_type
        except UnknownSchemaException as error:
            raise ValueError(f"schema {schema_id}: {error}") from error
        if kind == AVRO:
            return None
        if kind == _JSON:
            return key[_FRAME_BYTES:].decode("utf-8")
        raise ValueError(f"schema {schema_id} is one of {kind}, and keys are read of Avro and JSON only")

    def _of_avro(self, messages: Messages, places: list[int], schema: pa.Schema) -> FoundKeys:
        """The record keys of keys in Avro, a column at a time."""
        assert self.registry is not None
        numbers = np.array(places, np.int64)
        offsets = messages.offsets[numbers]
        keys = [messages.keys[place] for place in places]
        as_values = Messages(messages.topic, messages.partition, offsets, keys, keys, messages.timestamps_ms[numbers])
        wanted = pa.schema([field.with_nullable(False) for field in schema])
        try:
            decoder = AvroDecoder(to_avro(wanted, _NAME, "hoodie"), _RecordSchemas(self.registry, self.fields))
        except HoodieSchemaException as error:
            return FoundKeys(schema.empty_table().to_batches()[0], numbers[:0], dict.fromkeys(places, str(error)))
        decoded = decoder.decode(as_values)
        place_of = dict(zip(offsets.tolist(), places, strict=True))
        good = [] if decoded.origin is None else [place_of[offset] for offset in decoded.origin.numbers.tolist()]
        errors = [] if decoded.errors is None else decoded.errors.select(["offset", "message"]).to_pylist()
        return FoundKeys(
            pa.RecordBatch.from_arrays(decoded.rows.columns, schema=schema),
            np.array(good, np.int64),
            {place_of[error["offset"]]: error["message"] for error in errors},
        )

    def _record_key(self, text: str, schema: pa.Schema) -> dict[str, Any]:
        found: Any = None
        if text.lstrip().startswith("{"):
            found = json.loads(text, parse_float=Decimal)
        if isinstance(found, dict):
            lacking = [name for name in self.fields if found.get(name) is None]
            if lacking:
                raise ValueError(f"{text[:200]} has no {', '.join(lacking)}")
            return {name: _typed(name, found[name], schema) for name in self.fields}
        if len(self.fields) != 1:
            raise ValueError(f"{text[:200]!r} is no JSON object with {', '.join(self.fields)}")
        return {self.fields[0]: _typed(self.fields[0], _unquoted(text), schema)}


class _RecordSchemas:
    """The schemas of keys as those of records: one of a single value becomes that of the record key's one field."""

    def __init__(self, registry: SchemaRegistryClient, fields: tuple[str, ...]) -> None:
        self._registry = registry
        self._fields = fields

    def __repr__(self) -> str:
        return repr(self._registry)

    def load_schema(self, schema_id: int) -> RegisteredSchema:
        """See `SchemaRegistryClient.load_schema`."""
        found = self._registry.load_schema(schema_id)
        schema = json.loads(found.schema)
        if len(self._fields) != 1 or (isinstance(schema, dict) and schema.get("type") == "record"):
            return found
        record = {"type": "record", "name": _NAME, "fields": [{"name": self._fields[0], "type": schema}]}
        return attrs.evolve(found, schema=json.dumps(record))


def tombstone_keys_of(
    config: KafkaSourceConfig, fields: tuple[str, ...], properties: StreamerProperties
) -> TombstoneKeys | None:
    """The reader of keys that properties ask for; None if tombstones are dropped.

    Args:
        config: The properties of the source.
        fields: The fields of the record key.
        properties: The properties of the run.

    Raises:
        HoodieConfigException: There is no record key, or no URL of a registry.
    """
    if config.tombstones is not Tombstones.DELETE:
        return None
    if not fields:
        raise HoodieConfigException(
            "hoodie.streamer.source.kafka.tombstones = delete needs hoodie.datasource.write.recordkey.field: the "
            "fields that the key of a message fills"
        )
    if config.tombstone_keys is TombstoneKeyForm.TEXT:
        return TombstoneKeys(fields)
    registry = properties.read(SchemaRegistryClientConfig)
    if registry.url is None:
        raise HoodieConfigException(f"{TOMBSTONE_KEYS} = registry needs {REGISTRY_URL}, the URL of the schema registry")
    return TombstoneKeys(fields, SchemaRegistryClient(parse_hosts(registry.url, REGISTRY_URL), registry))


def _typed(name: str, value: Any, schema: pa.Schema) -> Any:
    """A value of the column's type: keys in plain text are texts."""
    data_type = schema.field(name).type
    if isinstance(value, str) and not pa.types.is_string(data_type):
        return pa.scalar(value).cast(data_type).as_py()
    if pa.types.is_string(data_type) and not isinstance(value, str):
        return str(value) if isinstance(value, Decimal) else json.dumps(value, default=str)
    if pa.types.is_integer(data_type) and isinstance(value, Decimal) and value != int(value):
        raise ValueError(f"{value} in {name} is no whole number")
    return value


def _unquoted(text: str) -> str:
    """The text of a key that is a JSON text; any other key as it is."""
    if not text.startswith('"'):
        return text
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return found if isinstance(found, str) else text
