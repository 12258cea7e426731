"""docs/java-map.md says where each class of Hudi lives here, as the docstrings do.

``python tests/unit/test_java_map.py`` writes the map anew, and keeps the reasons that somebody gave.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import attrs

REPOSITORY = Path(__file__).parents[2]
MAP = REPOSITORY / "docs" / "java-map.md"
HEAD = """# Hudi class to hoodie module

Each class below is named by the docstring of its counterpart, which also says how it differs. A counterpart lives in
the package of the same name (`org.apache.hudi.io` is `hoodie/io`) or below it; where it does not, the last column
says why. Not every counterpart is a class: what is a bag of static methods in Java is a module here.

| Hudi | hoodie | why elsewhere |
|---|---|---|
"""
CLASS_NAMES = re.compile(r"\b(org\.apache(?:\.[a-z][a-z0-9_]*)+)\.(\{[^}]*\}|[A-Z]\w*(?:\.[A-Z]\w*)*)")


@attrs.frozen(order=True)
class Row:
    """A line of the map."""

    hudi: str
    hoodie: str
    reason: str = attrs.field(default="", eq=False, order=False)

    @property
    def stands_elsewhere(self) -> bool:
        """Whether the two packages have different names."""
        return self._named != self._package

    @property
    def needs_reason(self) -> bool:
        """Whether the module is neither in the package of the same name nor below it."""
        return self.stands_elsewhere and not (self._named and f"{self._package}.".startswith(f"{self._named}."))

    @property
    def _named(self) -> str | None:
        """The package of the same name as Hudi's; None for a class of another package than Hudi's."""
        hudi = re.match(r"org\.apache\.(?:hudi\.)?((?:[a-z][a-z0-9_]*\.)*)", self.hudi)
        return None if hudi is None else hudi.group(1).rstrip(".")

    @property
    def _package(self) -> str:
        module, _ = split_name(self.hoodie)
        return ".".join(module.split(".")[1:-1])

    def line(self) -> str:
        """As the file has it."""
        module, name = split_name(self.hoodie)
        path = f"../{module.replace('.', '/')}.py"
        return f"| `{self.hudi}` | [`{module}`]({path}){f' `{name}`' if name else ''} | {self.reason} |"


def split_name(hoodie: str) -> tuple[str, str]:
    """Module and what it defines: ``hoodie.io.merge_handle:HoodieMergeHandle``."""
    module, _, name = hoodie.partition(":")
    return module, name


def classes_named_by(docstring: str) -> Iterator[str]:
    """Full names after the word ``Hudi:``; ``org.apache.a.{B, C}`` stands for two."""
    _, found, text = docstring.partition("Hudi: ")
    if not found:
        return
    text = re.sub(r"\s+", " ", text.split("\n\n")[0])
    for package, names in CLASS_NAMES.findall(text):
        for name in names.strip("{}").split(","):
            yield f"{package}.{name.strip()}"


def rows_of_docstrings() -> list[Row]:
    """One row per class of Hudi and module; a class or function of ours goes before the module that holds it."""
    found: dict[tuple[str, str], str] = {}
    for path in sorted((REPOSITORY / "hoodie").rglob("*.py")):
        module = ".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        definitions = [node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
        own_names = {node.name for node in definitions}
        for hudi in classes_named_by(ast.get_docstring(tree) or ""):
            simple_name = hudi.rpartition(".")[2]
            found[hudi, module] = simple_name if simple_name in own_names else ""
        for node in definitions:
            for hudi in classes_named_by(ast.get_docstring(node) or ""):
                if not found.get((hudi, module)):
                    found[hudi, module] = node.name
    return sorted(Row(hudi, f"{module}:{name}" if name else module) for (hudi, module), name in found.items())


def rows_of_the_map() -> list[Row]:
    """What the file says."""
    pattern = re.compile(r"\| `([^`]+)` \| \[`([^`]+)`\]\([^)]*\)(?: `([^`]+)`)? \| ?(.*?) ?\|$", re.MULTILINE)
    text = MAP.read_text(encoding="utf-8") if MAP.exists() else ""
    return [
        Row(hudi, f"{module}:{name}" if name else module, reason)
        for hudi, module, name, reason in pattern.findall(text)
    ]


def test_every_class_of_hudi_that_a_docstring_names_is_in_the_map_and_no_other() -> None:
    documented, mapped = set(rows_of_docstrings()), set(rows_of_the_map())
    assert documented, "no docstring names a class of Hudi"
    assert mapped == documented, f"run: python {Path(__file__).relative_to(REPOSITORY)}"


def test_every_row_of_the_map_names_something_that_can_be_imported() -> None:
    for row in rows_of_the_map():
        module_name, name = split_name(row.hoodie)
        module = importlib.import_module(module_name)
        assert not name or hasattr(module, name), row


def test_the_map_gives_a_reason_for_what_stands_in_another_package_than_in_hudi() -> None:
    rows = rows_of_the_map()
    assert [row.hudi for row in rows if row.needs_reason and not row.reason] == []
    assert [row.hudi for row in rows if row.reason and not row.stands_elsewhere] == []


def test_docstrings_name_classes_in_braces_and_across_lines() -> None:
    text = "Does it.\n\nHudi: org.apache.hudi.a.{B,\nC} and org.apache.hudi.d.E.F. Differs: so.\n\nSee org.apache.x.Y."
    assert list(classes_named_by(text)) == ["org.apache.hudi.a.B", "org.apache.hudi.a.C", "org.apache.hudi.d.E.F"]


def write_map() -> None:
    """Write the map of what the docstrings say now."""
    reasons = {row: row.reason for row in rows_of_the_map()}
    lines = [attrs.evolve(row, reason=reasons.get(row, "")).line() for row in rows_of_docstrings()]
    MAP.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_map()
