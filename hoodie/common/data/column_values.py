"""Values of a column that rows are searched for."""

from __future__ import annotations

import attrs
import pyarrow as pa


@attrs.frozen(eq=False)
class ColumnValues:
    """Values of a column of strings.

    Attributes:
        column: Its name.
        values: The values (string), each once.
    """

    column: str
    values: pa.Array
