"""Change the version of a table: upgrades from 6 to 8 and 9, and downgrades."""

from hoodie.table.upgrade.table_upgrade import downgrade_table, upgrade_table
from hoodie.table.upgrade.version_change import ChangedProperty, TableVersionChange

__all__ = ["ChangedProperty", "TableVersionChange", "downgrade_table", "upgrade_table"]
