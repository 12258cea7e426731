"""Properties of SqlSource."""

from __future__ import annotations

import attrs

from hoodie.common.config.property import PropertyGroup, column_names, property_field, text


@attrs.frozen(kw_only=True, repr=False)
class SqlSourceConfig(PropertyGroup):
    """Properties of SqlSource.

    Hudi: org.apache.hudi.utilities.config.SqlSourceConfig.
    """

    query: str = property_field("hoodie.streamer.source.sql.sql.query", text("a query"), "")
    "The query whose rows are written: of Spark SQL on Spark, of DuckDB in this process."
    tables: tuple[str, ...] = property_field(
        "hoodie.streamer.source.sql.tables", column_names("name=path"), (), is_ours=True
    )
    """Hudi tables that the query of DuckDB may name: `name=path`, separated by commas. On Spark, the catalog has the
    tables."""
