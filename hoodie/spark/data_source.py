"""``format("hoodie")`` of PySpark 4 for reads, writes and streams, with nothing registered.

PySpark runs the methods in several processes. Each gets the pickled result of the previous one::

    process                       runs                                             when
    creation                      schema(), which makes the plan of a batch read   load()
    planning                      reader(), pushFilters(), partitions()            each action
    source of a stream            streamReader(), its offsets and partitions()     as long as the query runs
    tasks                         read()                                           each task

So the plan of a batch read is made once, by ``load()``: each action of the frame reads the same files. The processes of
writes are in `hoodie.spark.data_source_writer`.

Hudi: org.apache.hudi.DefaultSource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    from pyspark.sql.datasource import DataSource
except ImportError as error:
    raise ImportError(
        'format("hoodie") needs PySpark 4, which has data sources in Python; with PySpark 3.5 use hoodie.spark.read, '
        "which is faster on every version"
    ) from error

if TYPE_CHECKING:
    from pyspark.sql import types as st

    from hoodie.query.change_plan import ChangePlan
    from hoodie.query.read_plan import ReadPlan
    from hoodie.spark.data_source_reader import HoodieDataSourceReader
    from hoodie.spark.data_source_stream import HoodieDataSourceStreamReader
    from hoodie.spark.data_source_writer import HoodieDataSourceStreamWriter, HoodieDataSourceWriter

# Each session of PySpark imports this module when it first looks for any data source, also for other ones. The modules
# that read and plan take half a second to import, so methods import them.


class HoodieDataSource(DataSource):  # type: ignore[misc]
    """A table as a data source; docs/data-source.md lists the options."""

    _plan: ReadPlan | ChangePlan | None = None
    """What a batch read reads; made by `schema`."""
    _is_planned = False
    """Whether the reader was made, so that only tasks get this object now; they need no plan."""

    @classmethod
    def name(cls) -> str:
        return "hoodie"

    def schema(self) -> st.StructType:
        from hoodie.spark import catalog_table, data_source_reader

        if catalog_table.is_created(self.options):
            return catalog_table.created_schema(self.options)
        self._plan, schema = data_source_reader.load(self.options)
        return schema

    def reader(self, schema: st.StructType) -> HoodieDataSourceReader:
        from hoodie.spark import catalog_table, data_source_reader

        self._is_planned = True
        options = catalog_table.of_catalog(self.options, schema)
        if options is None:
            return data_source_reader.reader_of(self.options, self._plan, schema)
        return data_source_reader.reader_of(options, None, catalog_table.without_marks(schema))

    def streamReader(self, schema: st.StructType) -> HoodieDataSourceStreamReader:
        from hoodie.spark import data_source_stream

        self._is_planned = True
        return data_source_stream.stream_reader_of(self.options, schema)

    def writer(self, schema: st.StructType, overwrite: bool) -> HoodieDataSourceWriter:
        from hoodie.spark import catalog_table, data_source_writer

        catalog_table.check_write(self.options, schema)
        return data_source_writer.writer_of(self.options, schema, overwrite)

    def streamWriter(self, schema: st.StructType, overwrite: bool) -> HoodieDataSourceStreamWriter:
        from hoodie.spark import data_source_writer

        return data_source_writer.stream_writer_of(self.options, schema, overwrite)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_plan": None if self._is_planned else self._plan}
