"""Properties of JdbcSource."""

from __future__ import annotations

from typing import Final

import attrs

from hoodie.common.config.property import PropertyGroup, boolean, property_field, text

_JDBC: Final = "hoodie.streamer.jdbc."
EXTRA_OPTIONS: Final = f"{_JDBC}extra.options."
"""The beginning of the keys of options for the connection."""


@attrs.frozen(kw_only=True, repr=False)
class JdbcSourceConfig(PropertyGroup):
    """Properties of JdbcSource. Keys that begin with ``hoodie.streamer.jdbc.extra.options.`` are more of them.

    Hudi: org.apache.hudi.utilities.config.JdbcSourceConfig.
    """

    url: str = property_field(f"{_JDBC}url", text("a URL such as jdbc:postgresql://host:5432/database"), "")
    "The database: `jdbc:postgresql://...`, `jdbc:mysql://...`, `jdbc:sqlite:FILE`, or any other with a driver module."
    driver_module: str = property_field(
        f"{_JDBC}driver.module", text("the name of a module with connect(), as PEP 249 says"), "", is_ours=True
    )
    """The Python module that connects. The default depends on the URL: `psycopg` or `pymysql` (the extra
    `hoodie[jdbc]`), or `sqlite3`. For other databases: a URL `jdbc:NAME://host:port/database` becomes the arguments
    `host`, `port`, `database`, `user` and `password`; of `jdbc:NAME:REST`, REST is the first argument."""
    driver_class: str = property_field(f"{_JDBC}driver.class", text("a class"), "")
    "The class of Java's driver; it does nothing here."
    user: str = property_field(f"{_JDBC}user", text(), "")
    "The user."
    password: str = property_field(f"{_JDBC}password", text(), "")
    "The password."
    password_file: str = property_field(f"{_JDBC}password.file", text("the path of a file"), "")
    "The file with the password; a line break at its end does not count."
    table_name: str = property_field(f"{_JDBC}table.name", text("a table, or a query in parentheses with a name"), "")
    "The table, or a query such as `(select ... from ...) t`."
    is_incremental: bool = property_field(f"{_JDBC}incr.pull", boolean(), False)
    "Whether a round reads only rows that are newer than those of the last round."
    incremental_column: str = property_field(f"{_JDBC}table.incr.column.name", text("the name of a column"), "")
    "The column that grows with each new or changed row. The position is its largest value."
    falls_back_to_full_fetch: bool = property_field(f"{_JDBC}incr.fallback.to.full.fetch", boolean(), False)
    "Whether all rows are read if the incremental query fails."
    storage_level: str = property_field(f"{_JDBC}storage.level", text("a storage level of Spark"), "")
    "The storage level of Spark's rows; it does nothing here, as rows are not kept."
