"""Columns of Parquet files moved from file to file, or written twice, without decoding them.

The rest of hoodie uses these names::

    StoredColumns   the columns of an old file: which may be copied, and the bytes of a row group's
    StoredChunks    those bytes
    SplicingWriter  a new file, some of whose columns are copies
    splicing_pays   whether a file is large and narrow enough for that

Inside, `compact_protocol` codes Thrift's numbers, and `column_chunks` describes columns as in a footer.
"""

from hoodie.io.parquet.splicing.column_chunks import StoredChunks, StoredColumns
from hoodie.io.parquet.splicing.splicing_writer import SplicingWriter, splicing_pays

__all__ = ["SplicingWriter", "StoredChunks", "StoredColumns", "splicing_pays"]
