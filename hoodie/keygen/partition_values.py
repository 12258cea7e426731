"""Column values that follow from a partition path: a key generator in reverse."""

from __future__ import annotations

import operator
from functools import reduce
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.data.expression_tree import Call, Field, Literal, Node, parse_expression
from hoodie.common.data.row_filter import COMPARISONS
from hoodie.common.model.key_generator_type import KEY_GENERATOR_PACKAGE
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.exception import HoodieException
from hoodie.keygen.partition_path_encoding import DEFAULT_PARTITION

if TYPE_CHECKING:
    from hoodie.keygen.timestamp_levels import TimestampLevels

INVERTIBLE_GENERATORS = frozenset(
    {"SimpleKeyGenerator", "SimpleAvroKeyGenerator", "ComplexKeyGenerator", "ComplexAvroKeyGenerator"}
)
"""Key generators whose levels are values. A user's class can make anything."""
_GENERATORS_WITH_TIMES = frozenset(
    {"TimestampBasedKeyGenerator", "TimestampBasedAvroKeyGenerator", "CustomKeyGenerator", "CustomAvroKeyGenerator",
     "TIMESTAMP", "TIMESTAMP_AVRO", "CUSTOM", "CUSTOM_AVRO"}
)  # fmt: skip


@attrs.frozen
class _Level:
    """A partition field in the paths.

    Attributes:
        field: Its name.
        folders: The number of its folders; a pattern such as ``yyyy/MM`` makes two.
        is_known: Whether values follow from the folders.
        times: The names of folders for times; None if the folders hold the field's values themselves.
    """

    field: str
    folders: int = 1
    is_known: bool = True
    times: TimestampLevels | None = None

    @property
    def name_column(self) -> str:
        """A column for the folder's name; no column of a table has a space in its name."""
        return f"folder of {self.field}"


@attrs.frozen(eq=False)
class PartitionValues:
    """Column values that follow from the partition paths of a table.

    A condition of rows is compared with a path in two ways: by the values that follow from the path (`guarantee`), and
    by the folders to which the values of the condition lead (`narrowed`), which works for every pattern of times.

    Attributes:
        schema: The columns' types, and those of the folders' names.
        levels: The partition fields; () if no values follow from paths.
        hive_style: Whether folders are ``<field>=<value>``.
        url_encode: Whether values are escaped.
    """

    schema: pa.Schema
    levels: tuple[_Level, ...]
    hive_style: bool
    url_encode: bool

    @classmethod
    def of(cls, table: HoodieTableConfig, schema: pa.Schema) -> Self:
        """Read how a table's paths are made.

        Args:
            table: The table's properties.
            schema: The columns' types.
        """
        levels = _levels_of(table, schema)
        names = [pa.field(level.name_column, pa.string()) for level in levels if level.times is not None]
        return cls(pa.schema([*schema, *names]), levels, table.hive_style_partitioning, table.url_encode_partitioning)

    def guarantee(self, partition_path: str) -> pc.Expression:
        """A condition that every row of a partition meets, by its path; ``true`` if no values follow from the path.

        Only strings, integers, booleans and dates can be read from folders of values.

        Args:
            partition_path: The relative path.

        Example: ``region=emea/day=2026-01-01`` gives ``region == "emea" and day == 2026-01-01``.
        """
        whole = pc.scalar(True)
        folders = partition_path.split("/") if partition_path else []
        if len(folders) != sum(level.folders for level in self.levels):
            return whole
        for level in self.levels:
            text, folders = "/".join(folders[: level.folders]), folders[level.folders :]
            prefix = f"{level.field}=" if self.hive_style else ""
            if not level.is_known:
                continue
            value = text.removeprefix(prefix)
            value = unquote(value) if self.url_encode and value != DEFAULT_PARTITION else value
            if level.times is None:
                condition = self._of_value(level.field, value)
            elif text.startswith(prefix) and level.times.is_name(value):
                condition = pc.field(level.name_column) == value
                of_times = level.times.condition(level.field, value)
                condition = condition if of_times is None else condition & of_times
            else:
                condition = None
            whole = whole if condition is None else whole & condition
        return whole

    def narrowed(self, condition: pc.Expression) -> pc.Expression:
        """A condition of rows and of the folders that they are in; every row that fulfils the given one fulfils it.

        Args:
            condition: The condition that statistics can decide, as `hoodie.common.data.row_filter.RowFilter` gives it.

        Example: ``ts == 1700000000`` gives ``ts == 1700000000 and "folder of ts" in ("2023/11/14")``.
        """
        times = {level.field: level for level in self.levels if level.times is not None}
        tree = parse_expression(condition) if times else None
        found = None if tree is None else _narrowed(tree, times)
        return condition if found is None else found

    def _of_value(self, field: str, text: str) -> pc.Expression | None:
        if text == DEFAULT_PARTITION or field not in self.schema.names:
            return None
        data_type = self.schema.field(field).type
        if not (
            pa.types.is_string(data_type)
            or pa.types.is_integer(data_type)
            or pa.types.is_boolean(data_type)
            or pa.types.is_date32(data_type)
        ):
            return None
        try:
            return pc.field(field) == pa.scalar(text).cast(data_type)
        except pa.ArrowInvalid:
            return None


def _levels_of(table: HoodieTableConfig, schema: pa.Schema) -> tuple[_Level, ...]:
    generator = (table.key_generator_class or "").removeprefix(KEY_GENERATOR_PACKAGE)
    if generator in INVERTIBLE_GENERATORS:
        return tuple(_Level(field) for field in table.partition_fields)
    if generator not in _GENERATORS_WITH_TIMES:
        return ()
    # Imported here: only folders of times need a key generator, and reads of other tables start earlier without.
    from hoodie.config.timestamp_key_generator_config import HoodieTimestampKeyGeneratorConfig, TimestampType
    from hoodie.keygen.built_in_key_generators import TimesKeyGenerator
    from hoodie.keygen.key_generator import create_key_generator
    from hoodie.keygen.timestamp_levels import TimestampLevels

    try:
        made = create_key_generator(table)
        given, _ = HoodieTimestampKeyGeneratorConfig.of_table(table.table_name, table.properties, {})
    except HoodieException:
        # The table does not store all that its paths depend on.
        return ()
    has_unit = given.timestamp_type is not TimestampType.SCALAR or given.time_unit is not None
    assert isinstance(made, TimesKeyGenerator)
    levels = []
    for field in made.partition_fields:
        paths = made.times_of(field)
        if paths is None:
            levels.append(_Level(field))
            continue
        known = TimestampLevels.of(paths, schema.field(field).type) if has_unit and field in schema.names else None
        folders = 1 if made.url_encode else paths.output.folder_count
        levels.append(_Level(field, folders, known is not None, known))
    return tuple(levels)


def _narrowed(node: Node, times: dict[str, _Level]) -> pc.Expression | None:
    """The condition of a tree with folders' names; None for no condition."""
    if not isinstance(node, Call):
        return None
    if node.function in ("and_kleene", "or_kleene"):
        parts = [_narrowed(argument, times) for argument in node.arguments]
        known = [part for part in parts if part is not None]
        if node.function == "and_kleene":
            return reduce(operator.and_, known) if known else None
        return reduce(operator.or_, known) if len(known) == len(parts) else None
    column = node.arguments[0]
    if not isinstance(column, Field) or len(column.path) > 1:
        return None
    field = pc.field(column.path[0])
    if node.function == "is_valid":
        return field.is_valid()
    value = node.arguments[1] if len(node.arguments) > 1 else None
    if node.function in COMPARISONS and isinstance(value, Literal):
        leaf = COMPARISONS[node.function](field, value.value)
        values = pa.repeat(value.value, 1) if node.function == "equal" else None
    elif node.function == "is_in" and node.options is not None:
        values = node.options["value_set"].values
        leaf = field.isin(values)
    else:
        return None
    level = times.get(column.path[0])
    if level is None or level.times is None or values is None:
        return leaf
    names = level.times.names_of(values)
    return leaf if names is None else leaf & pc.field(level.name_column).isin(pa.array(sorted(names), pa.string()))
