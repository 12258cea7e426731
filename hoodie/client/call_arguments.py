"""Checks of the arguments that callers pass to a client, and of the classes that its properties name."""

from __future__ import annotations

from collections.abc import Mapping

from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.model.commit_metadata import RESERVED_METADATA_KEYS
from hoodie.common.util.class_loading import load_class
from hoodie.common.util.shown_value import short_repr, shown_value
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieCommitException, HoodieConfigException
from hoodie.execution.bulkinsert.bulk_insert_partitioner import create_bulk_insert_partitioner
from hoodie.keygen.user_key_generator import load_user_key_generator
from hoodie.merge.merge_properties import MERGER_KEYS
from hoodie.merge.record_merger import HoodieRecordMerger


def check_time(instant_time: object) -> None:
    """Refuse an instant time that is not a string.

    Raises:
        HoodieConfigException: The instant time has another type.
    """
    if not isinstance(instant_time, str):
        raise HoodieConfigException(
            f"the instant time is {shown_value(instant_time)}: give it as text, such as '20260131123000000'"
        )


def check_text(argument: str, value: object) -> None:
    """Refuse a named argument that is not a string.

    Raises:
        HoodieConfigException: The argument has another type.
    """
    if not isinstance(value, str):
        raise HoodieConfigException(f"{argument} is {shown_value(value)}: give text")


def check_result(instant_time: object, result: object) -> None:
    """Refuse to commit anything but the result of the instant's write.

    Args:
        instant_time: The caller's argument.
        result: The caller's argument.

    Raises:
        HoodieConfigException: The instant time is not a string.
        HoodieCommitException: The result is not a write result, or belongs to another instant.
    """
    if isinstance(instant_time, HoodieWriteResult) and isinstance(result, str):
        raise HoodieCommitException(
            "the arguments of commit are swapped: call client.commit(instant_time, result); nothing was committed"
        )
    check_time(instant_time)
    if not isinstance(result, HoodieWriteResult):
        raise HoodieCommitException(
            f"the result to commit as instant {instant_time} is {shown_value(result)}: give what the write returned, "
            "result = client.upsert(records, instant_time); client.commit(instant_time, result). Nothing was committed"
        )
    if result.instant_time != instant_time:
        raise HoodieCommitException(
            f"the result is of instant {result.instant_time}, not of {instant_time}: pass its own instant time"
        )


def check_extra_metadata(extra_metadata: Mapping[str, str] | None) -> None:
    """Refuse extra metadata that a commit cannot hold.

    Raises:
        HoodieConfigException: It is not a dict of text to text, or uses a name that is reserved for the table.
    """
    if extra_metadata is not None and not isinstance(extra_metadata, Mapping):
        raise HoodieConfigException(
            f"extra_metadata is {shown_value(extra_metadata)}: give a dict of text to text, or None"
        )
    for key, value in (extra_metadata or {}).items():
        if key in RESERVED_METADATA_KEYS or not isinstance(key, str) or not isinstance(value, str):
            own = " and ".join(f"'{name}'" for name in sorted(RESERVED_METADATA_KEYS))
            raise HoodieConfigException(
                f"extra metadata {short_repr(key)}: {short_repr(value)} cannot be stored: it must be text, "
                f"and {own} are the table's own"
            )


def check_named_classes(config: HoodieWriteConfig) -> None:
    """Load the record merger, the key generator and the partitioner of bulk inserts that properties name.

    The classes of the index, lock, validators and callback are loaded by the parts that use them, when a client is
    created.

    Raises:
        HoodieConfigException: There is no such class, or it does not have the required base class.
    """
    if config.payload.merger_class is not None:
        load_class(config.payload.merger_class, MERGER_KEYS[0], HoodieRecordMerger)
    key_generator = config.table.key_generator_class
    if key_generator is not None and not key_generator.startswith("org.apache.hudi."):
        load_user_key_generator(key_generator, config.properties)
    create_bulk_insert_partitioner(config)
