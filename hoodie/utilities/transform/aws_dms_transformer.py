"""The column of operations that the first load of AWS DMS lacks.

Hudi: org.apache.hudi.utilities.transform.AWSDmsTransformer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.transform.transformer import Transformer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OP_FIELD: Final = "Op"
"""The column with the operation: I, U or D."""


class AWSDmsTransformer(Transformer):
    """Adds the column ``Op`` with empty text if there is none, as in the full load of AWS DMS.

    Hudi: org.apache.hudi.utilities.transform.AWSDmsTransformer.
    """

    def apply(self, table: pa.Table, properties: StreamerProperties) -> pa.Table:
        """See `Transformer.apply`."""
        if OP_FIELD in table.column_names:
            return table
        values = pa.repeat(pa.scalar("", pa.string()), table.num_rows)
        return table.append_column(pa.field(OP_FIELD, pa.string(), nullable=False), values)

    def apply_to_frame(self, frame: DataFrame, properties: StreamerProperties) -> DataFrame:
        """See `Transformer.apply_to_frame`."""
        # Imported here: only this method needs PySpark.
        from pyspark.sql.functions import lit

        return frame if OP_FIELD in frame.columns else frame.withColumn(OP_FIELD, lit(""))
