"""``CREATE TABLE name USING hoodie LOCATION '...'``: a name in Spark's catalog for a table that exists.

When Spark creates such a name without columns, it asks the data source for them, and gives it the location. Later it
gives a query only the columns, as the catalog has them, so each of them carries the location in its metadata.

A write must name the folder itself, ``INSERT INTO name WITH (path '...')``. Columns keep their metadata in queries, so
the columns of ``CREATE TABLE other USING hoodie AS SELECT * FROM name`` carry the location too: rows must not go there.

Spark: org.apache.spark.sql.execution.datasources.v2.V2SessionCatalog.createTable.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql import types as st

from hoodie.common.model.record_columns import META_COLUMN_SET
from hoodie.exception import HoodieConfigException, TableNotFoundException
from hoodie.spark import data_source_reader
from hoodie.spark.data_source_options import DataSourceOptions

_MARK = "hoodie.table"
"""Name of the metadata of a field; its value is the path and the options in JSON."""
_OF_CATALOG = ("location", "owner", "provider", "external", "comment", "collation", "is_managed_location")
_COPIES = "option."
"""Spark gives each option of ``OPTIONS`` twice."""


def is_created(options: Mapping[str, str]) -> bool:
    """Whether Spark asks for the columns of a name that it creates in its catalog.

    Args:
        options: The options from Spark; names in lower case.
    """
    return {"owner", "provider"} <= {name.lower() for name in options}


def created_schema(options: Mapping[str, str]) -> st.StructType:
    """The columns of such a name: the table's without meta columns, so that ``INSERT`` needs only these.

    Args:
        options: The options from Spark.

    Raises:
        HoodieConfigException: There is no location, or an option is none of those that a name keeps.
        TableNotFoundException: There is no table at the location.
        HoodieException: The table cannot be read.
    """
    given = {name.lower(): value for name, value in options.items()}
    path = given.get("location") or given.get("path", "")
    if not path or given.get("is_managed_location") == "true":
        raise HoodieConfigException(
            "CREATE TABLE ... USING hoodie names a table that exists: give its folder, CREATE TABLE name USING hoodie "
            "LOCATION '/path/of/the/table', without columns. hoodie.spark.write makes tables"
        )
    kept = {
        name: value
        for name, value in given.items()
        if name not in (*_OF_CATALOG, "path") and not name.startswith(_COPIES)
    }
    strange = sorted(name for name in kept if not name.startswith(("hoodie.", "storage.")))
    if strange:
        raise HoodieConfigException(
            f"CREATE TABLE ... USING hoodie LOCATION {path!r}: unknown property {', '.join(strange)}. The table at the "
            "location says its keys, type and columns; give storage.<name> and Hudi's read options, or nothing"
        )
    try:
        schema = data_source_reader.columns_of(DataSourceOptions.of({**kept, "path": path}))
    except TableNotFoundException as error:
        raise TableNotFoundException(
            f"CREATE TABLE ... USING hoodie LOCATION {path!r}: there is no table, and CREATE TABLE makes none: write "
            f"the first rows with hoodie.spark.write(df, {path!r}, options), then create the name"
        ) from error
    mark = {_MARK: json.dumps({**kept, "path": path})}
    fields = [field for field in schema.fields if field.name not in META_COLUMN_SET]
    return st.StructType([st.StructField(f.name, f.dataType, f.nullable, mark) for f in fields])


def of_catalog(options: Mapping[str, str], schema: st.StructType) -> dict[str, str] | None:
    """The options of a query on such a name: those stored with its columns, and those of the query itself.

    Args:
        options: The options of the query.
        schema: The columns, as the catalog has them.

    Returns:
        None for a query that names the folder itself.

    Raises:
        HoodieConfigException: Neither the query nor the columns name a folder.
    """
    if any(name.lower() == "path" for name in options):
        return None
    found = _marked(schema)
    if found is None:
        raise HoodieConfigException(
            "the table's folder is missing: give it to load(path), or as the option path. Spark does not tell the "
            "location of a name in its catalog that was created with columns or by saveAsTable, or changed by "
            "ALTER TABLE: DROP TABLE it, and "
            "CREATE TABLE name USING hoodie LOCATION '/path/of/the/table', without columns"
        )
    names = json.dumps([field.name for field in schema.fields])
    return {**found, "columns": names, **{name.lower(): value for name, value in options.items()}}


def check_write(options: Mapping[str, str], schema: st.StructType) -> None:
    """Refuse a write that does not name the folder, with the line to use.

    Args:
        options: The options of the write.
        schema: The columns of the rows.

    Raises:
        HoodieConfigException: There is no option ``path``.
    """
    if any(name.lower() == "path" for name in options):
        return
    found = _marked(schema)
    line = f"INSERT INTO name WITH (path {found['path']!r}) ..." if found else "INSERT INTO name WITH (path '...') ..."
    raise HoodieConfigException(
        "the table's folder is missing: give it to save(path) or start(path), or as the option path. Spark does not "
        f"tell the location of a name in its catalog to a write: {line}, or hoodie.spark.write(df, path, options). "
        "CREATE TABLE ... AS SELECT and saveAsTable make no table: hoodie.spark.write does, and then CREATE TABLE name "
        "USING hoodie LOCATION '...'. Nothing was written"
    )


def without_marks(schema: st.StructType) -> st.StructType:
    """The columns without the metadata of their fields.

    Args:
        schema: The columns, as the catalog has them.
    """
    return st.StructType([st.StructField(f.name, f.dataType, f.nullable) for f in schema.fields])


def _marked(schema: st.StructType) -> dict[str, str] | None:
    """The options stored with the columns, if all columns have the same ones."""
    marks = {(field.metadata or {}).get(_MARK) for field in schema.fields}
    mark = marks.pop() if len(marks) == 1 else None
    return None if mark is None else dict(json.loads(mark))
