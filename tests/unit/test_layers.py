"""The contract of the layers in setup.cfg leaves no module out."""

from __future__ import annotations

import configparser
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


def layers_of(contract: str) -> set[str]:
    """The modules that a contract names as layers."""
    config = configparser.ConfigParser()
    config.read(REPOSITORY / "setup.cfg")
    text = config[f"importlinter:contract:{contract}"]["layers"]
    return set(text.replace("|", " ").replace(":", " ").split())


def modules_below(package: str) -> list[str]:
    """Dotted names of the modules that are no packages."""
    folder = REPOSITORY.joinpath(*package.split("."))
    found = sorted(path for path in folder.rglob("*.py") if path.name != "__init__.py")
    return [".".join(path.relative_to(REPOSITORY).with_suffix("").parts) for path in found]


@pytest.mark.parametrize(("contract", "package"), [("layers", "hoodie"), ("client", "hoodie.client")])
def test_every_module_stands_in_a_layer(contract: str, package: str) -> None:
    layers = layers_of(contract)
    outside = [
        module
        for module in modules_below(package)
        if not any(module == layer or module.startswith(layer + ".") for layer in layers)
    ]
    assert modules_below(package)
    assert outside == []


@pytest.mark.parametrize("contract", ["layers", "client"])
def test_every_layer_is_a_module(contract: str) -> None:
    modules = [*modules_below("hoodie"), "pyspark_hoodie"]
    missing = [
        layer
        for layer in layers_of(contract)
        if not any(module == layer or module.startswith(layer + ".") for module in modules)
    ]
    assert missing == []


def test_one_function_makes_instants_complete() -> None:
    callers = [
        str(path.relative_to(REPOSITORY))
        for path in sorted((REPOSITORY / "hoodie").rglob("*.py"))
        for _ in range(path.read_text().count(".save_as_complete("))
    ]
    assert callers == ["hoodie/common/table/timeline/completion.py"]
