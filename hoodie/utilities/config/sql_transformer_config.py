"""Properties of the transformers that are SQL."""

from __future__ import annotations

import attrs

from hoodie.common.config.property import PropertyGroup, property_field, text


@attrs.frozen(kw_only=True, repr=False)
class SqlTransformerConfig(PropertyGroup):
    """Properties of SqlQueryBasedTransformer and SqlFileBasedTransformer.

    Hudi: org.apache.hudi.utilities.config.SqlTransformerConfig.
    """

    sql: str = property_field(
        "hoodie.streamer.transformer.sql", text("a query that names the rows <SRC>, such as SELECT * FROM <SRC>"), ""
    )
    "The query of SqlQueryBasedTransformer. `<SRC>` stands for the rows of the batch."
    sql_file: str = property_field("hoodie.streamer.transformer.sql.file", text("the path of a file of SQL"), "")
    "The file of SqlFileBasedTransformer: statements that end with `;`. The result of the last one is written."
