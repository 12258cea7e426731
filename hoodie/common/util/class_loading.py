"""Classes by their names: classes that a user names in a property, and classes of errors that tasks report."""

from __future__ import annotations

import importlib
import sys
from inspect import signature
from typing import Any, TypeVar

from hoodie import exception
from hoodie.exception import HoodieConfigException, HoodieException

_Base = TypeVar("_Base")


def load_class(name: str, property_key: str, base_class: type[_Base]) -> type[_Base]:
    """The class of a dotted name.

    Args:
        name: ``package.module.Class``.
        property_key: The property with the name, for messages.
        base_class: The required base class.

    Raises:
        HoodieConfigException: There is no such module or class, importing it fails, it has another base class, or it
            does not define all methods.
    """
    given = f"{property_key} = {name}"
    base_name = _public_name(base_class)
    advice = f"name a subclass of {base_name} as package.module.Class that can be imported here and by the tasks"
    module_name, _, class_name = name.rpartition(".")
    if not module_name:
        raise HoodieConfigException(f"{given} has no module: {advice}")
    try:
        found = getattr(importlib.import_module(module_name), class_name)
    except Exception as error:  # A module of the user's may raise anything.
        is_absent = isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}.")
        if is_absent and name.startswith(("org.apache.", "com.", "java.")):
            raise HoodieConfigException(f"{given} looks like a class of Java: {advice}") from error
        reason = f"{type(error).__name__}: {error}"
        raise HoodieConfigException(f"{given} cannot be imported ({reason}): {advice}") from error
    if not (isinstance(found, type) and issubclass(found, base_class)):
        raise HoodieConfigException(f"{given} is not a subclass of {base_name}: {advice}")
    if missing := sorted(getattr(found, "__abstractmethods__", ())):
        raise HoodieConfigException(f"{given} does not define {', '.join(missing)}, as {base_name} asks for")
    return found


def create_object(name: str, property_key: str, base_class: type[_Base], *arguments: Any) -> _Base:
    """Create an object of the class of a dotted name.

    Args:
        name: As for `load_class`.
        property_key: As for `load_class`.
        base_class: As for `load_class`.
        arguments: The arguments of its constructor.

    Raises:
        HoodieConfigException: See `load_class`; or the constructor raises an error that is not one of hoodie's.
    """
    found = load_class(name, property_key, base_class)
    try:
        return found(*arguments)
    except HoodieException:
        raise
    except Exception as error:
        kinds = ", ".join(type(argument).__name__ for argument in arguments) or "no argument"
        raise HoodieConfigException(
            f"{property_key} = {name} cannot be created ({type(error).__name__}: {error}): its constructor is called "
            f"with {kinds}"
        ) from error


def error_of_class(name: str, message: str) -> HoodieException:
    """Make the error that a task reported by the name of its class and its message.

    Args:
        name: The name of a class in `hoodie.exception`. Any other name gives a `HoodieException`. A class that makes
            its message of something else gives its nearest base that takes one.
        message: The message.
    """
    error_class = getattr(exception, name, None)
    if not isinstance(error_class, type) or not issubclass(error_class, HoodieException):
        return HoodieException(message)
    while "__init__" in vars(error_class) and "message" not in signature(error_class).parameters:
        error_class = error_class.__mro__[1]
    found: HoodieException = error_class(message)
    return found


def _public_name(base_class: type) -> str:
    """The shortest name by which a user imports the class."""
    public = getattr(sys.modules.get("hoodie"), base_class.__name__, None)
    return f"{'hoodie' if public is base_class else base_class.__module__}.{base_class.__qualname__}"
