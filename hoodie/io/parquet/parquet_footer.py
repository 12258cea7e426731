"""The key/value pairs that Hudi adds to the footer of a Parquet base file.

Hudi: org.apache.hudi.avro.HoodieBloomFilterWriteSupport, org.apache.hudi.common.util.ParquetUtils.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import attrs
import pyarrow.compute as pc

from hoodie.common.bloom.bloom_filter import BloomFilter, SimpleBloomFilter, decode_bloom_filter
from hoodie.common.bloom.key_blocks import Keys, plain_keys, utf8_bytes
from hoodie.exception import HoodieCorruptedDataException

_BLOOM_FILTER = "org.apache.hudi.bloomfilter"
_OLD_BLOOM_FILTER = "com.uber.hoodie.bloomfilter"
_BLOOM_FILTER_TYPE = "hoodie_bloom_filter_type_code"
_MIN_RECORD_KEY = "hoodie_min_record_key"
_MAX_RECORD_KEY = "hoodie_max_record_key"
_AVRO_SCHEMA = "parquet.avro.schema"
_MODEL_NAME = "writer.model.name"
_FIRST_BYTE_OF_LAST_BASIC = 0xEE
"""First UTF-8 byte of U+E000 to U+FFFF: from here on, the two orders of characters differ."""
_FIRST_BYTE_OF_SUPPLEMENTARY = 0xF0


@attrs.frozen
class KeyRange:
    """The smallest and the largest of some record keys, in the order of Java's strings.

    Java compares UTF-16 code units. That differs from the order of code points between characters above U+FFFF and
    those from U+E000 to U+FFFF: an emoji is smaller than a full-width letter.

    Attributes:
        min_key: No key is smaller.
        max_key: No key is larger.
    """

    min_key: str
    max_key: str

    @classmethod
    def of(cls, keys: Keys) -> KeyRange | None:
        """The range of keys; None when there are none.

        Args:
            keys: Strings without nulls.

        Raises:
            HoodieKeyException: A key is null.
            HoodieSchemaException: Keys are not strings.
        """
        plain = plain_keys(keys)
        if not len(plain):
            return None
        # A character above U+FFFF has four bytes in UTF-8, the first of them at least 0xF0.
        if utf8_bytes(plain)[0].max(initial=0) >= _FIRST_BYTE_OF_SUPPLEMENTARY:
            values = plain.to_pylist()
            return cls(min(values, key=_java_order), max(values, key=_java_order))
        ends = pc.min_max(plain).as_py()
        return cls(ends["min"], ends["max"])

    def union(self, other: KeyRange | None) -> KeyRange:
        """The smallest range that holds both."""
        if other is None:
            return self
        return KeyRange(
            min(self.min_key, other.min_key, key=_java_order), max(self.max_key, other.max_key, key=_java_order)
        )

    @property
    def is_of_any_order(self) -> bool:
        """Whether the range holds the same keys in Java's order and in the order of UTF-8 bytes."""
        low, high = self.min_key.encode(), self.max_key.encode()
        return low <= high and max(low + high, default=0) < _FIRST_BYTE_OF_LAST_BASIC


@attrs.frozen(eq=False)
class Footer:
    """Hudi's part of a base file's footer.

    Attributes:
        path: The file, for messages.
        min_record_key: Smallest record key; None for a file without rows, or written without meta fields.
        max_record_key: Largest record key, likewise.
        avro_schema: Avro schema of the file, meta columns included; None when the writer did not store it.
        bloom_filter_text: The bloom filter in Base64, None when there is none.
        bloom_filter_type: Its type code; None (old files) means SIMPLE.
    """

    path: str
    min_record_key: str | None
    max_record_key: str | None
    avro_schema: str | None
    bloom_filter_text: str | None = attrs.field(repr=False)
    bloom_filter_type: str | None

    @property
    def key_range(self) -> KeyRange | None:
        """The range of the file's keys, None when the footer lacks it."""
        if self.min_record_key is None or self.max_record_key is None:
            return None
        return KeyRange(self.min_record_key, self.max_record_key)

    @cached_property
    def bloom_filter(self) -> BloomFilter | None:
        """The filter of the file's keys, decoded on first use; only the owner of this footer should add keys to it.

        Raises:
            HoodieCorruptedDataException: The filter is damaged.
            HoodieNotSupportedException: The filter has an unknown type.
        """
        if self.bloom_filter_text is None:
            return None
        try:
            return decode_bloom_filter(self.bloom_filter_type, self.bloom_filter_text)
        except HoodieCorruptedDataException as error:
            raise HoodieCorruptedDataException(
                f"reading the bloom filter in the footer of {self.path}: {error}. The rows may be intact, but keys "
                "cannot be looked up by this filter: rewrite the file, or restore it from a copy"
            ) from error


def parse_footer(path: str, entries: Mapping[bytes, bytes] | None) -> Footer:
    """Hudi's part of a footer.

    Args:
        path: The file.
        entries: Key/value pairs of the Parquet footer.

    Raises:
        HoodieCorruptedDataException: An entry is not text.
    """
    found = entries or {}

    def text(name: str) -> str | None:
        value = found.get(name.encode())
        try:
            return None if value is None else value.decode()
        except UnicodeDecodeError as error:
            raise HoodieCorruptedDataException(f"footer entry {name} of {path} is not UTF-8: {error}") from error

    bloom_filter_text = text(_BLOOM_FILTER)
    return Footer(
        path=path,
        min_record_key=text(_MIN_RECORD_KEY),
        max_record_key=text(_MAX_RECORD_KEY),
        avro_schema=text(_AVRO_SCHEMA),
        bloom_filter_text=text(_OLD_BLOOM_FILTER) if bloom_filter_text is None else bloom_filter_text,
        bloom_filter_type=text(_BLOOM_FILTER_TYPE),
    )


def footer_entries(
    bloom_filter: BloomFilter | None,
    key_range: KeyRange | None,
    avro_schema: str | None,
    filter_text: str | None = None,
) -> dict[str, str]:
    """The key/value pairs of a new file.

    Args:
        bloom_filter: Filter of the file's keys; None for a file without meta fields.
        key_range: Range of the file's keys; None for a file without rows.
        avro_schema: Avro schema, meta columns included.
        filter_text: A text in place of the filter's; None for the filter's own.
    """
    entries = {}
    if avro_schema is not None:
        entries[_AVRO_SCHEMA] = avro_schema
        entries[_MODEL_NAME] = "avro"
    if bloom_filter is not None:
        entries[_BLOOM_FILTER] = bloom_filter.to_base64() if filter_text is None else filter_text
        if bloom_filter.type_code != SimpleBloomFilter.type_code:  # Hudi's readers take its absence for SIMPLE
            entries[_BLOOM_FILTER_TYPE] = bloom_filter.type_code
    if key_range is not None:
        entries[_MIN_RECORD_KEY] = key_range.min_key
        entries[_MAX_RECORD_KEY] = key_range.max_key
    return entries


def _java_order(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")
