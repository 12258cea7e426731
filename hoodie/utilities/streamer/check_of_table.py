"""The questions that a table asks of the rows of a round: which keys, paths and ordering values it can store."""

from __future__ import annotations

from collections.abc import Sequence

from hoodie.client.new_table import config_of_new_table
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.keygen.base_key_generator import KeyGenerator
from hoodie.keygen.key_generator import create_key_generator, key_form_depends_on_table
from hoodie.keygen.user_key_generator import KeyGeneratorOfUser
from hoodie.merge.payload_rules import MergeMode
from hoodie.utilities.config.error_table_config import HoodieErrorTableConfig
from hoodie.utilities.streamer.row_check import RowCheck

_DELETES = (WriteOperationType.DELETE, WriteOperationType.DELETE_PARTITION)


def check_of_table(
    stored: HoodieTableConfig | None,
    config: HoodieWriteConfig,
    error_table: HoodieErrorTableConfig | None,
    round_name: str = "",
    fields_of_deletes: Sequence[str] = (),
) -> RowCheck:
    """The questions that every row of a round has to pass.

    Args:
        stored: The properties of the table; None for a new one, which the options describe.
        config: The writer's configuration.
        error_table: The properties of the error table; None where an error fails the round.
        round_name: The position that the round began at.
        fields_of_deletes: Fields that each row that deletes has to tell.

    Raises:
        HoodieException: The options describe no table, or a key generator that hoodie does not have.
    """
    keeps = error_table is not None
    asks = error_table is None or error_table.validates_record_creation
    return RowCheck(
        key_generator_of_table(stored, config) if asks else None,
        None if config.write.operation in _DELETES else config.write.record_key_max_bytes,
        keeps,
        error_table is not None and error_table.validates_target_schema,
        ordering_fields=tuple(_ordering_fields(stored, config)) if asks else (),
        round_name=round_name,
        fields_of_deletes=tuple(fields_of_deletes),
    )


def key_fields_of_table(stored: HoodieTableConfig | None, config: HoodieWriteConfig) -> Sequence[str]:
    """The fields of the record key, as the table has them; as the options tell them, for a new one.

    Args:
        stored: The properties of the table; None for a new one.
        config: The writer's configuration.
    """
    if stored is not None and stored.record_key_fields:
        return stored.record_key_fields
    return config.table.record_key_fields or ()


def key_generator_of_table(stored: HoodieTableConfig | None, config: HoodieWriteConfig) -> KeyGenerator | None:
    """The generator of the table's keys, to find rows without one; None without key fields, or for a user's class.

    Where only a stored key tells whether keys begin with the name of their field, its keys begin with the value: they
    are as long as those that are stored, or shorter.

    Args:
        stored: The properties of the table; None for a new one.
        config: The writer's configuration.

    Raises:
        HoodieException: The options describe no table, or a key generator that hoodie does not have.
    """
    if not key_fields_of_table(stored, config):
        return None
    table_config = config_of_new_table(config) if stored is None else stored
    if not table_config.record_key_fields:
        return None
    prefix = False if stored is not None and key_form_depends_on_table(stored) else None
    generator = create_key_generator(table_config, prefix, config.properties)
    return None if isinstance(generator, KeyGeneratorOfUser) else generator


def _ordering_fields(stored: HoodieTableConfig | None, config: HoodieWriteConfig) -> Sequence[str]:
    """The ordering fields that no row may lack: those of upserts, where an ordering value decides."""
    if config.write.operation is not WriteOperationType.UPSERT:
        return ()
    mode = (None if stored is None else stored.properties.get("hoodie.record.merge.mode")) or config.payload.merge_mode
    if mode == MergeMode.COMMIT_TIME_ORDERING:
        return ()
    return (() if stored is None else stored.ordering_fields) or config.table.ordering_fields or ()
