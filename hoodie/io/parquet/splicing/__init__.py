"""Columns of Parquet files moved from file to file, or written twice, without decoding them.

The rest of hoodie uses these names::

    StoredColumns   the columns of an old file: which may be copied, and the bytes of a row group's
    StoredChunks    those bytes
    SplicingWriter  a new file, some of whose columns or row groups are copies
    splicing_pays   whether a file is large and narrow enough for copies of columns
    CopiedForm      what a row group must be like to be copied as a whole
    StoredRowGroup  a row group of an old file that is like that
    RowGroupEdit    such a row group with changes of few rows
    RowChanges      these changes
    decoded_bytes   what such changes hold in memory, beside the stored bytes

Inside, `column_chunks` describes columns as in a footer, `row_groups`
says which row groups are copied, and copies their pages, and `changed_statistics` tells the statistics of a column of
which few values change.
"""

from hoodie.io.parquet.splicing.column_chunks import StoredChunks, StoredColumns
from hoodie.io.parquet.splicing.row_group_edits import RowChanges, RowGroupEdit, decoded_bytes
from hoodie.io.parquet.splicing.row_groups import CopiedForm, ReadAt, StoredRowGroup, row_groups_to_copy
from hoodie.io.parquet.splicing.splicing_writer import SplicingWriter, splicing_pays

__all__ = [
    "CopiedForm",
    "ReadAt",
    "RowChanges",
    "RowGroupEdit",
    "SplicingWriter",
    "StoredChunks",
    "StoredColumns",
    "StoredRowGroup",
    "decoded_bytes",
    "row_groups_to_copy",
    "splicing_pays",
]
