"""Columns of Parquet files moved from file to file, or written twice, without decoding them.

Three names are all that the rest of hoodie knows of it::

    StoredColumns   the columns of an old file: which may be copied, and the bytes of a row group's
    StoredChunks    those bytes
    SplicingWriter  a new file, some of whose columns are copies

Within, `compact_protocol` knows Thrift's numbers, and `column_chunks` what a footer says of a column.
"""

from hoodie.io.parquet.splicing.column_chunks import StoredChunks, StoredColumns
from hoodie.io.parquet.splicing.splicing_writer import SplicingWriter

__all__ = ["SplicingWriter", "StoredChunks", "StoredColumns"]
