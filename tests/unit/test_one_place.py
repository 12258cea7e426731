"""What the code does in one place alone: to load a table for a write, to take the mutex of a metadata table."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import hoodie

ROOT = Path(hoodie.__file__).parent
READERS = {
    "hoodie/common/table/table_meta_client.py",
    "hoodie/interface/changed_rows.py",
    "hoodie/interface/table.py",
    "hoodie/query/change_planner.py",
    "hoodie/query/planner.py",
    "hoodie/spark/data_source_reader.py",
    "hoodie/spark/data_source_stream.py",
    "hoodie/spark/data_source_writer.py",
    "hoodie/spark/reader.py",
    "hoodie/stats/of_path.py",
    "hoodie/utilities/checkpointing/another_timeline_provider.py",
    "hoodie/utilities/sources/hoodie_incr_source.py",
    "hoodie/validation/table_description.py",
    "hoodie/validation/table_validator.py",
}
"""Modules that load a table to read it, by the options of a query."""


@cache
def trees() -> dict[str, ast.Module]:
    """Path of a module -> its syntax tree."""
    paths = sorted(ROOT.rglob("*.py"))
    return {str(path.relative_to(ROOT.parent)): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def users_of(name: str, *, only_calls: bool = False) -> set[str]:
    """The modules that use a plain name or one of two parts, but for imports."""
    first, _, second = name.rpartition(".")

    def is_use(node: ast.AST) -> bool:
        if only_calls:
            return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return (node.value.id, node.attr) == (first, second)
        return isinstance(node, ast.Name) and node.id == name

    return {path for path, tree in trees().items() if any(map(is_use, ast.walk(tree)))}


def test_a_table_is_loaded_for_a_change_in_one_place() -> None:
    """`look_at_table` knows the writer's retries, clock skew and choice of listing; others would forget one."""
    users = users_of("TableSnapshot.load")
    assert "hoodie/table/open_table.py" in users
    assert users - READERS == {"hoodie/table/open_table.py"}


def test_the_mutex_of_a_metadata_table_is_taken_behind_its_door_and_with_the_lock() -> None:
    assert users_of("one_at_a_time") == {
        "hoodie/metadata/metadata_table.py",
        "hoodie/table/action/completion.py",
        "hoodie/transaction/transaction_manager.py",
    }


def test_the_parts_of_a_writer_are_made_in_one_place() -> None:
    """Actions take the session of a client; only what has no client makes a lock of its own."""
    makers = users_of("TransactionManager", only_calls=True)
    assert makers == {
        "hoodie/client/open_or_create.py",
        "hoodie/client/table_replacement.py",
        "hoodie/table/repair/repaired_table.py",
        "hoodie/table/table_overwrite.py",
        "hoodie/table/table_removal.py",
        "hoodie/table/table_session.py",
        "hoodie/table/upgrade/table_upgrade.py",
    }
