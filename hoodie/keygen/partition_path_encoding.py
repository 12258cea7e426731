"""Escape and check the levels of a partition path.

Hudi: org.apache.hudi.common.util.PartitionPathEncodeUtils. Differs: values that would leave the table's folder, or that
no file system can store, are refused; Hudi writes wherever they lead.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.util.arrow_buffers import booleans_of, flags_in, scalar_of
from hoodie.storage.storage_path import METAFOLDER_NAME

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The level for a null or empty value."""
MAX_LEVEL_BYTES = 255
"""The longest folder name that common file systems allow."""

_ESCAPED = re.compile("[\x00-\x1f\"#%'*/:=?\\\\\x7f{\\[\\]^]")
_ESCAPED_RE2 = r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]"""
_HEX = re.compile("%([0-9A-F]{2})")
_CONTROL_CHARACTER = re.compile("[\x00-\x1f\x7f]")
_SUSPICIOUS_RE2 = r"[\x00-\x1f\x7f:]|^/|/$|//|(^|/)\."
_PARTITION_METADATA = ".hoodie_partition_metadata"


def escape_path_name(value: str) -> str:
    """The value with each character that Hudi escapes replaced by ``%`` and two hex digits.

    escape_path_name("2026/11:a b")   "2026%2F11%3Aa b"
    """
    return _ESCAPED.sub(lambda match: f"%{ord(match.group()):02X}", value)


def unescape_path_name(escaped: str) -> str:
    """The value of which `escape_path_name` made a name; of several levels, joined by slashes, all at once."""
    return _HEX.sub(lambda match: chr(int(match.group(1), 16)), escaped)


def reason_against_level(level: str, field_prefix: str = "") -> str | None:
    """The reason why a level (or several, if the value contains slashes) cannot be stored; None if it can.

    Args:
        level: The value as it is in the path, escaped or not, without the field's name.
        field_prefix: ``<field>=`` before it with hive style, otherwise "".
    """
    if _CONTROL_CHARACTER.search(level):
        return "contains a control character"
    if level.startswith("/"):
        return "starts with a slash"
    if level.endswith("/"):
        return "ends with a slash"
    if ":" in level:
        return "contains a colon, which Hudi takes for the end of a URL's scheme (URL encoding of partitions allows it)"
    names = level.split("/")
    if "" in names:
        return "contains an empty folder name (two slashes)"
    if "." in names or ".." in names:
        return "contains '.' or '..', which would lead to another folder"
    full = [field_prefix + names[0], *names[1:]]
    if full[0] == METAFOLDER_NAME or any(name.startswith(_PARTITION_METADATA) for name in full):
        return "is a name that Hudi uses for its own files"
    longest = max(full, key=lambda name: len(name.encode()))
    if len(longest.encode()) > MAX_LEVEL_BYTES:
        return f"makes a folder name of {len(longest.encode())} bytes, and file systems allow {MAX_LEVEL_BYTES}"
    return None


def partition_level(strings: pa.StringArray, field: str, hive_style: bool, url_encode: bool) -> pa.StringArray:
    """The level of a partition path for each value; null where it cannot be stored (`reason_against_level`).

    Args:
        strings: Values of the partition field, as `hoodie.keygen.value_strings` returns them.
        field: The field's name.
        hive_style: Whether the level is ``<field>=<value>``.
        url_encode: Whether the value is escaped.
    """
    strings = pc.if_else(pc.equal(strings, "").fill_null(True), DEFAULT_PARTITION, strings)
    if url_encode:
        strings = _replace(strings, pc.match_substring_regex(strings, _ESCAPED_RE2), escape_path_name)
    prefix = f"{field}=" if hive_style else ""
    suspicious = pc.or_(
        pc.match_substring_regex(strings, _SUSPICIOUS_RE2),
        pc.greater(pc.binary_length(strings), scalar_of(MAX_LEVEL_BYTES - len(prefix.encode()))),
    )
    strings = _replace(strings, suspicious, lambda text: None if reason_against_level(text, prefix) else text)
    return pc.binary_join_element_wise(prefix, strings, "") if prefix else strings


def usable_paths(partition_paths: pa.StringArray) -> pa.StringArray:
    """Check partition paths that did not come from a key generator; null where they cannot be stored below the table.

    Args:
        partition_paths: Whole paths, as in a `hoodie.common.model.record.HoodieKey`; "" is the table's folder.
    """
    suspicious = pc.or_(
        pc.match_substring_regex(partition_paths, _SUSPICIOUS_RE2),
        pc.greater(pc.binary_length(partition_paths), scalar_of(MAX_LEVEL_BYTES)),
    )
    return _replace(
        partition_paths, booleans_of(flags_in(suspicious)), lambda text: None if reason_against_level(text) else text
    )


def _replace(strings: pa.Array, mask: pa.Array, function: object) -> pa.Array:
    """The strings, with the function applied to those in the mask."""
    assert callable(function)
    if not pc.any(mask).as_py():
        return strings
    replaced = pa.array([function(text) for text in strings.filter(mask).to_pylist()], pa.string())
    return pc.replace_with_mask(strings, mask, replaced)
