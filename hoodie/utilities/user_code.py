"""Classes and functions of users, by the names that they give: ``package.module:name``.

Modules are found in the folders of PYTHONPATH and, after all others, in the working folder.
"""

from __future__ import annotations

import importlib
import os
import sys
import sysconfig
import traceback
from typing import Any, Final

from hoodie.exception import HoodieConfigException, HoodieException

_OWN_FOLDER: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LIBRARIES: Final = tuple(
    f"{os.path.abspath(folder)}{os.sep}"
    for folder in (_OWN_FOLDER, *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")))
)


def load_attribute(module: str, attribute: str, given: str, advice: str = "") -> Any:
    """A class or function of a user.

    Args:
        module: The dotted name of its module.
        attribute: Its name there.
        given: The flag and the value that the user gave, for messages.
        advice: The end of the message.

    Raises:
        HoodieConfigException: There is no such module or name, or importing it fails.
    """
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # A module of the user's may raise anything.
        raise HoodieConfigException(
            f"{given} cannot be imported ({error_told(error)}){advice}. Modules are found in the folders "
            f"of PYTHONPATH and in {here}"
        ) from error


def make_object(found: type[Any], given: str, *arguments: Any) -> Any:
    """An object of a user's class.

    Args:
        found: The class.
        given: The flag and the value that the user gave, for messages.
        arguments: The arguments of its constructor.

    Raises:
        HoodieConfigException: The constructor raises anything but errors of hoodie, which pass.
    """
    try:
        return found(*arguments)
    except HoodieException:
        raise
    except Exception as error:
        kinds = ", ".join(type(argument).__name__ for argument in arguments) or "no argument"
        raise HoodieConfigException(f"{given} cannot be made with {kinds} ({error_told(error)})") from error


def error_told(error: BaseException) -> str:
    """The kind and text of an error of a user's code, and the line of theirs where it came up.

    Args:
        error: The error. Lines of hoodie, of Python and of installed packages are passed over.
    """
    text = f"{type(error).__name__}: {error}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        # Compiled modules give names of their sources, which are relative.
        if os.path.isabs(frame.filename) and not frame.filename.startswith(_LIBRARIES):
            return f"{text}, {os.path.basename(frame.filename)} line {frame.lineno}"
    return text
