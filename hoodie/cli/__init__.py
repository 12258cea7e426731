"""The command `hoodie`: the methods of `hoodie.Table` in a shell.

Modules that need pyarrow are imported where a command runs, so that ``--help`` and completion answer at once.
"""
