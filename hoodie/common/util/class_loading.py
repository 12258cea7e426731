"""Classes that a user names in a property."""

from __future__ import annotations

import importlib
from typing import Any

from hoodie.exception import HoodieConfigException

__all__ = ["load_class"]


def load_class(name: str, property_key: str) -> Any:
    """The class of a dotted name.

    Args:
        name: ``package.module.Class``.
        property_key: Where the name was given, for messages.

    Raises:
        HoodieConfigException: There is no such module or class, or importing it fails; or it is a class of Java.
    """
    module_name, _, class_name = name.rpartition(".")
    advice = "name a Python class as package.module.Class that can be imported here and by the tasks"
    if name.startswith(("org.apache.", "com.", "java.")):
        raise HoodieConfigException(f"{property_key} = {name} looks like a class of Java: {advice}")
    if not module_name:
        raise HoodieConfigException(f"{property_key} = {name} has no module: {advice}")
    try:
        found = getattr(importlib.import_module(module_name), class_name)
    except ImportError as error:
        raise HoodieConfigException(f"{property_key} = {name} cannot be imported ({error}): {advice}") from error
    except AttributeError as error:
        raise HoodieConfigException(f"{property_key} = {name}: module {module_name} has no {class_name}") from error
    except Exception as error:
        raise HoodieConfigException(
            f"{property_key} = {name}: importing {module_name} failed ({type(error).__name__}: {error})"
        ) from error
    if not isinstance(found, type):
        raise HoodieConfigException(f"{property_key} = {name} is no class: {advice}")
    return found
