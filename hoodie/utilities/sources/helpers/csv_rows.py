"""Rows of CSV as Arrow batches, by block and, where a block is refused, row by row.

A block is read as one by pyarrow. If it cannot be, because one of its rows is wrong, it is read in smaller and smaller
pieces, so that each wrong row is known by itself. A row of text is always one row, or an error: a quote that is not
closed never swallows the next rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from hoodie.common.data.file_rows import csv_options, holds_codes
from hoodie.common.data.iso_times import is_time_of_text, parsed_times
from hoodie.exception import HoodieSchemaException
from hoodie.utilities.config.csv_dfs_source_config import CsvDFSSourceConfig, time_format

_PIECES: Final = 16
_ARROW_PLACE = re.compile(r"^(CSV parse error: |In CSV column #\d+: |Row #\d+: )+")


class _BlockRefusedError(Exception):
    """A block that is not one row for each of its texts."""


@attrs.frozen
class CsvForm:
    """The form of CSV files. Picklable.

    Attributes:
        separator: The character between values.
        quote: The character around values; "" for none.
        escape: The character before a quote; "" if quotes are doubled, None if nobody said.
        null_values: The texts of nulls.
        date_format: The form of dates, for the functions of C; None for ISO 8601.
        timestamp_format: The form of times, likewise.
        is_multi_line: Whether values in quotes may hold ends of lines.
    """

    separator: str = ","
    quote: str = '"'
    escape: str | None = None
    null_values: tuple[str, ...] = ("",)
    date_format: str | None = None
    timestamp_format: str | None = None
    is_multi_line: bool = False

    @classmethod
    def of(cls, config: CsvDFSSourceConfig) -> CsvForm:
        """The form that properties tell.

        Args:
            config: The properties.
        """
        escape = "" if config.escape is not None and config.escape == config.quote else config.escape
        return cls(
            config.separator,
            config.quote,
            escape,
            tuple(dict.fromkeys(("", config.null_value))),
            None if config.date_format is None else time_format(config.date_format),
            None if config.timestamp_format is None else time_format(config.timestamp_format),
            config.is_multi_line,
        )

    @property
    def line_quote(self) -> bytes | None:
        """The character between two of which a line does not end; None if each line is a row."""
        return self.quote.encode() if self.is_multi_line and self.quote else None

    def parse_options(self) -> csv.ParseOptions:
        """The options of pyarrow."""
        return csv.ParseOptions(
            delimiter=self.separator,
            quote_char=self.quote or False,
            double_quote=True,
            escape_char=self.escape or False,
            newlines_in_values=self.is_multi_line,
        )

    def values_of(self, row: bytes) -> list[str]:
        """The values of one row, as texts.

        Args:
            row: The row.

        Raises:
            pyarrow.ArrowInvalid: It is no row, or not UTF-8.
        """
        table = csv.read_csv(
            pa.BufferReader(row + b"\n"),
            csv.ReadOptions(autogenerate_column_names=True, use_threads=False, block_size=len(row) + 2),
            self.parse_options(),
        )
        names = table.column_names
        texts = csv.read_csv(
            pa.BufferReader(row + b"\n"),
            csv.ReadOptions(column_names=names, use_threads=False, block_size=len(row) + 2),
            self.parse_options(),
            csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
        )
        return [texts.column(place)[0].as_py() for place in range(len(names))]


@attrs.frozen(eq=False)
class CsvRows:
    """Rows of texts, and the reasons why others are none.

    Attributes:
        rows: The good rows, in the order of the texts.
        positions: The number of each row's text.
        failures: The number of a text, and the reason; in the order of the texts.
    """

    rows: pa.RecordBatch
    positions: npt.NDArray[np.int64]
    failures: Sequence[tuple[int, str]]


@attrs.frozen(eq=False)
class CsvDecoder:
    """Makes rows of texts of one file.

    Attributes:
        form: The form of the file.
        names: The columns of the file, in its order.
        schema: The columns of the rows; those that the file lacks are null.
    """

    form: CsvForm
    names: Sequence[str]
    schema: pa.Schema

    def decode(self, texts: Sequence[bytes]) -> CsvRows:
        """Make rows of texts.

        Args:
            texts: The texts, one for each row, without the ends of lines.
        """
        odd = self._odd(texts)
        good = [position for position in range(len(texts)) if position not in odd] if odd else range(len(texts))
        batches: list[tuple[Sequence[int], pa.RecordBatch]] = []
        failures = list(odd.items())
        self._decode_some(texts, good, batches, failures)
        positions = np.concatenate([np.asarray(numbers, np.int64) for numbers, _ in batches] or [np.empty(0, np.int64)])
        rows = _joined([batch for _, batch in batches], self.schema)
        required = [place for place, field in enumerate(self.schema) if not field.nullable]
        for place in required:
            if rows.column(place).null_count:
                is_null = rows.column(place).is_null().to_numpy(zero_copy_only=False)
                reason = f"column {self.schema.field(place).name} has no value, and its type has no null"
                failures += [(int(position), reason) for position in positions[is_null]]
                rows, positions = rows.filter(pa.array(~is_null)), positions[~is_null]
        return CsvRows(rows, positions, sorted(failures))

    def _decode_some(
        self,
        texts: Sequence[bytes],
        numbers: Sequence[int],
        batches: list[tuple[Sequence[int], pa.RecordBatch]],
        failures: list[tuple[int, str]],
    ) -> None:
        if not len(numbers):
            return
        try:
            batches.append((numbers, self._read([texts[number] for number in numbers])))
        except (pa.ArrowInvalid, HoodieSchemaException, _BlockRefusedError) as error:
            if len(numbers) == 1:
                failures.append((numbers[0], self._reason(texts[numbers[0]], error)))
                return
            step = -(-len(numbers) // _PIECES)
            for start in range(0, len(numbers), step):
                self._decode_some(texts, numbers[start : start + step], batches, failures)

    def _read(self, texts: Sequence[bytes]) -> pa.RecordBatch:
        """Read texts as one block. The first one stands at the end too: a quote that is open there takes it in."""
        content = b"\n".join([*texts, texts[0], b""])
        if self.form.escape == "\\":
            content = self._escapes.sub(rb"\1\\\\", content)
        table = csv.read_csv(
            pa.BufferReader(content),
            csv.ReadOptions(column_names=list(self.names), use_threads=False, block_size=len(content) + 1),
            self.form.parse_options(),
            self._options,
        )
        if table.num_rows != len(texts) + 1:
            raise _BlockRefusedError
        columns = []
        for field in self.schema:
            column = table[field.name].slice(0, len(texts))
            if column.type != field.type:
                column = self._time_of(column, field)
            columns.append(column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _reason(self, text: bytes, error: Exception) -> str:
        """The reason why a single text is no row."""
        is_open = bool(self.form.quote) and text.count(self.form.quote.encode()) % 2 == 1
        if not is_open and not isinstance(error, _BlockRefusedError):
            return _ARROW_PLACE.sub("", str(error))
        more = "" if self.form.is_multi_line else "; hoodie.streamer.csv.multiLine=true allows ends of lines in quotes"
        return f"a quote is not closed, or the line holds a carriage return{more}"

    def _time_of(self, column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
        if pa.types.is_string(column.type):
            return parsed_times(column, field.type, field.name)
        if pa.types.is_timestamp(field.type) and field.type.tz:
            column = pc.assume_timezone(column, "UTC")
        return column.cast(field.type)

    def _odd(self, texts: Sequence[bytes]) -> dict[int, str]:
        """Texts that could be taken for something else than they are."""
        if self.form.escape is not None or not self.form.quote:
            return {}
        sought = b"\\" + self.form.quote.encode()
        reason = (
            f"it holds {sought.decode()}: give hoodie.streamer.csv.escape=\\ if a backslash escapes a quote, or "
            f"hoodie.streamer.csv.escape={self.form.quote} if it does not"
        )
        return {number: reason for number, text in enumerate(texts) if sought in text}

    @cached_property
    def _escapes(self) -> re.Pattern[bytes]:
        """Backslashes that escape nothing: pyarrow would drop them."""
        quote = re.escape(self.form.quote.encode() or b'"')
        return re.compile(rb"(?<!\\)((?:\\\\)*)\\(?![\\" + quote + rb"])")

    @cached_property
    def _options(self) -> csv.ConvertOptions:
        form = self.form
        formats = [one for one in (form.date_format, form.timestamp_format) if one is not None]
        types = {field.name: self._read_type(field.type) for field in self.schema}
        return csv_options(types, self.schema.names, form.null_values, formats)

    def _read_type(self, wanted: pa.DataType) -> pa.DataType:
        if pa.types.is_timestamp(wanted) and self.form.timestamp_format is not None:
            return pa.timestamp(wanted.unit)
        if pa.types.is_date32(wanted) and self.form.date_format is not None:
            return pa.timestamp("s")  # pyarrow reads dates of ISO 8601 only
        return pa.string() if is_time_of_text(pa.string(), wanted) else wanted


def guess_types(
    form: CsvForm, names: Sequence[str], wanted: Sequence[str], texts: Sequence[bytes], known: Mapping[str, pa.DataType]
) -> dict[str, pa.DataType]:
    """The types of columns, by some more rows. Numbers that begin with a zero, as ``007``, are texts.

    Args:
        form: The form of the file.
        names: The columns of the file, in its order.
        wanted: The columns whose types are sought.
        texts: The rows.
        known: The types by the rows before these; of the type null if they had nulls only.

    Returns:
        The types by all of these rows.
    """
    sought = [name for name in wanted if known.get(name) != pa.string() and name in names]
    if not sought or not texts:
        return dict(known)
    guessed = _read_leniently(form, names, sought, {}, texts)
    whole = [name for name in sought if pa.types.is_integer(guessed[name].type)]
    if whole:
        as_text = _read_leniently(form, names, whole, dict.fromkeys(whole, pa.string()), texts)
        codes = {name for name in whole if holds_codes(as_text[name])}
    else:
        codes = set()
    found = dict(known)
    for name in sought:
        # A time of day cannot be stored.
        is_text = name in codes or pa.types.is_time(guessed[name].type)
        kind = pa.string() if is_text else guessed[name].type
        found[name] = _wider(known.get(name, pa.null()), kind)
    return found


def _read_leniently(
    form: CsvForm,
    names: Sequence[str],
    columns: Sequence[str],
    types: Mapping[str, pa.DataType],
    texts: Sequence[bytes],
) -> pa.Table:
    content = b"\n".join([*texts, b""])
    options = form.parse_options()
    options.invalid_row_handler = _skip
    formats = [one for one in (form.date_format, form.timestamp_format) if one is not None]
    return csv.read_csv(
        pa.BufferReader(content),
        csv.ReadOptions(column_names=list(names), use_threads=False, block_size=len(content) + 1),
        options,
        csv_options(types, columns, form.null_values, formats),
    )


def _skip(row: csv.InvalidRow) -> str:
    return "skip"


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if one.equals(other) or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if {one, other} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other) and bool(one.tz) == bool(other.tz):
        return one if one.unit != "s" else other
    if {pa.types.is_date32(one), pa.types.is_date32(other)} == {True, False}:
        time = other if pa.types.is_date32(one) else one
        return time if pa.types.is_timestamp(time) and not time.tz else pa.string()
    return pa.string()


def _joined(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    arrays = [
        pa.concat_arrays([batch.column(place) for batch in batches]) if batches else pa.array([], field.type)
        for place, field in enumerate(schema)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
