"""The demands on rows of a transformer, so that tombstones behind it delete the records of their keys.

Hudi does not have it.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from hoodie.exception import HoodieTransformException
from hoodie.utilities.config.kafka_source_config import TOMBSTONES, Tombstones


@attrs.frozen
class TombstoneRules:
    """The demands on rows of a transformer, so that tombstones behind it delete their records.

    Attributes:
        kept_columns: The columns that the rows must have.
        filled_columns: The columns that must have a value in each row that deletes.
    """

    kept_columns: tuple[str, ...] = ()
    filled_columns: tuple[str, ...] = ()

    def check_columns(self, names: Sequence[str]) -> None:
        """Refuse rows that lack a column.

        Args:
            names: The columns that the transformer returned.

        Raises:
            HoodieTransformException: A column is missing.
        """
        if lacking := [name for name in self.kept_columns if name not in names]:
            raise HoodieTransformException(
                f"{TOMBSTONES} = {Tombstones.DELETE}: the rows of the transformer have no column "
                f"{', '.join(lacking)}, so that tombstones would overwrite records with nulls. Nothing was committed. "
                "Let the transformer return the column as it came"
            )
