r"""Parts of a large file of lines, each of which a task of its own reads.

A line belongs to the part that has its first byte:

    one\ntwo\nthree\nfour\n      bytes 0 to 6: "one", "two"; bytes 6 to 12: "three"; bytes 12 to 19: "four"

A part does not know how many lines come before it. They are counted only if a line of the part is bad.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.utilities.ingestion.error_event import ErrorEvent, ErrorReason
from hoodie.utilities.sources.source import DecodedBatch, RowOrigin

_STEP_BYTES: Final = 1 << 20
_NEWLINE: Final = b"\n"


@attrs.frozen
class FilePart:
    """A span of bytes of a file.

    Attributes:
        start: The first byte.
        end: The byte behind the last one.
    """

    start: int
    end: int


def parts_of_file(file: FileStatus, most_bytes: int) -> list[FilePart]:
    """Parts of about the same size.

    Args:
        file: The file.
        most_bytes: The size of a part, at most.

        >>> parts_of_file(FileStatus("f", 10, 0), 4)
        [FilePart(start=0, end=3), FilePart(start=3, end=6), FilePart(start=6, end=10)]
    """
    count = max(1, -(-file.size_bytes // most_bytes))
    borders = [file.size_bytes * number // count for number in range(count + 1)]
    return [FilePart(start, end) for start, end in pairwise(borders)]


class LinesOfPart:
    """The bytes of the lines of a part, as a file that begins with the first of them.

    Args:
        content: The file.
        part: The part.
    """

    def __init__(self, content: pa.NativeFile, part: FilePart) -> None:
        self._content = content
        self._part = part
        self._place: int | None = None
        self._is_done = False

    def read(self, size: int) -> bytes:
        """The next bytes; none at the end of the part.

        Args:
            size: The most bytes.
        """
        if self._place is None:
            self._place = first_line(self._content, self._part)
            self._is_done = self._place >= self._part.end
            self._content.seek(self._place)
        if self._is_done:
            return b""
        found: bytes = self._content.read(size)
        # The last line is the one that has the last byte of the part.
        end = found.find(_NEWLINE, max(0, self._part.end - 1 - self._place))
        if end >= 0:
            found = found[: end + 1]
        self._is_done = end >= 0 or not found
        self._place += len(found)
        return found


def first_line(content: pa.NativeFile, part: FilePart) -> int:
    """The place of the first line that begins in a part, or the end of the part if none does.

    Args:
        content: The file.
        part: The part.
    """
    if part.start == 0:
        return 0
    # A line begins behind the end of another one.
    place = part.start - 1
    content.seek(place)
    while place < part.end - 1:
        found = content.read(min(_STEP_BYTES, part.end - 1 - place))
        if not found:
            break
        end = found.find(_NEWLINE)
        if end >= 0:
            return int(place + end + 1)
        place += len(found)
    return part.end


@attrs.define(eq=False, slots=False)
class LineNumbers:
    """The numbers of the lines of a part in its file.

    Attributes:
        storage: The storage of the file.
        file: The file.
        part: The part; None for the whole file.
    """

    storage: HoodieStorage
    file: FileStatus
    part: FilePart | None = None

    @property
    def shown_path(self) -> str:
        """The path for messages about a line whose number is one of the part."""
        if self.part is None or self.part.start == 0:
            return self.file.path
        return f"{self.file.path} from byte {self.part.start} on"

    @cached_property
    def before(self) -> int:
        """The number of lines before the part; the file is read up to it."""
        if self.part is None or self.part.start == 0:
            return 0
        with self.storage.open_input_stream(self.file.path) as content:
            left = first_line(content, self.part)
            content.seek(0)
            count = 0
            while left > 0:
                found = content.read(min(4 * _STEP_BYTES, left))
                if not found:
                    break
                count += found.count(_NEWLINE)
                left -= len(found)
        return count

    def corrected(self, batch: DecodedBatch) -> DecodedBatch:
        """A batch whose errors and places have the lines of the file, instead of those of the part.

        Args:
            batch: The batch. The errors are those of lines.
        """
        if self.part is None or self.part.start == 0:
            return batch
        errors, origin = batch.errors, batch.origin
        if errors is not None and len(errors):
            lines = pc.add(errors.column("line"), self.before)
            names = pc.binary_join_element_wise(errors.column("file"), lines.cast(pa.string()), ":")
            columns = {"error_id": names, "line": lines}
            arrays = [columns.get(name, array) for name, array in zip(errors.schema.names, errors.columns, strict=True)]
            errors = pa.RecordBatch.from_arrays(arrays, schema=errors.schema)
        if origin is not None:
            origin = _OriginInPart(origin.numbers, file=origin.file, lines=self)
        return DecodedBatch(batch.rows, errors, origin)


@attrs.frozen(eq=False)
class _OriginInPart(RowOrigin):
    """The places of rows by their lines in a part."""

    lines: LineNumbers = attrs.field(kw_only=True)

    def event(self, row: int, reason: ErrorReason, message: str, payload: bytes | str | None) -> ErrorEvent:
        """See `RowOrigin.event`."""
        line = int(self.numbers[row]) + self.lines.before
        return ErrorEvent(reason, message, payload, file=self.file, line=line)
