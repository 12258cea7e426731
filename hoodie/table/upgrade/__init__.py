"""Change the version of a table: upgrades from 6 to 8 and 9, and downgrades."""

from hoodie.table.upgrade.log_files import LogFilesLeftException
from hoodie.table.upgrade.table_upgrade import change_table_version
from hoodie.table.upgrade.version_change import ChangedProperty, TableVersionChange

__all__ = ["ChangedProperty", "LogFilesLeftException", "TableVersionChange", "change_table_version"]
