"""The transformers that ``--transformer-class`` names.

A name is one of Hudi's classes, or ``module:Class``, ``module:function`` or ``module.Class`` of a user's. In a chain,
an id may stand before it, with a colon. What follows the last colon decides:

    t1:FlatteningTransformer            the id t1, as Hudi's names are no names in a module
    t1:package.module.Class             the id t1, as a name in a module has no dot
    my_module:clean                     the function clean of my_module, without an id
    t1:my_module:clean                  the same with the id t1
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hoodie.exception import HoodieConfigException
from hoodie.utilities.class_names import REFUSED, TRANSFORMERS, find_class
from hoodie.utilities.transform.chained_transformer import ChainedTransformer, NamedTransformer
from hoodie.utilities.transform.transformer import FunctionTransformer, Transformer
from hoodie.utilities.user_code import load_attribute, make_object

FLAG = "--transformer-class"
_ID = re.compile(r"[\w-]+")


def make_transformer(names: Sequence[str]) -> Transformer | None:
    """Make the transformers that a user names.

    Args:
        names: The names, with or without ids.

    Returns:
        One transformer that stands for all, whose errors name the one that failed; None without names.

    Raises:
        HoodieConfigException: A name is of nothing that can transform rows; or ids are missing or doubled.
    """
    if not names:
        return None
    return ChainedTransformer([_named(name.strip()) for name in names])


def split_id(name: str) -> tuple[str | None, str]:
    """The id of a name, and the rest.

    Args:
        name: The name.

    Returns:
        The id, None without one, and the name of a class or function.

    Raises:
        HoodieConfigException: It has too many colons, or the id is empty or has other characters than letters, digits,
            ``_`` and ``-``.
    """
    first, *rest = name.split(":")
    if not rest or (len(rest) == 1 and not _needs_no_module(rest[0])):
        return None, name
    if len(rest) > 2 or not all(rest):
        raise HoodieConfigException(f"{FLAG} = {name}: write Class, id:Class, module:Class or id:module:Class")
    if not _ID.fullmatch(first):
        raise HoodieConfigException(f"{FLAG} = {name}: an id has letters, digits, _ and -, and at least one of them")
    return first, ":".join(rest)


def _needs_no_module(name: str) -> bool:
    return "." in name or name in TRANSFORMERS or name in REFUSED


def _named(name: str) -> NamedTransformer:
    identifier, rest = split_id(name)
    if ":" not in rest and (rest.startswith("org.apache.hudi.") or "." not in rest):
        return NamedTransformer(name, find_class(rest, TRANSFORMERS, FLAG, Transformer)(), identifier)
    module, _, attribute = rest.rpartition(":" if ":" in rest else ".")
    return NamedTransformer(name, _of_user(name, module, attribute), identifier)


def _of_user(name: str, module: str, attribute: str) -> Transformer:
    given, advice = f"{FLAG} = {name}", ""
    if "." not in module and name.count(":") == 1:
        advice = (
            f"; if {module} is meant as an id: hoodie has the transformers {', '.join(TRANSFORMERS)}, and a class of "
            f"yours with an id is {module}:module:{attribute}"
        )
    found = load_attribute(module, attribute, given, advice)
    if isinstance(found, type):
        found = make_object(found, given)
    if isinstance(found, Transformer):
        return found
    function = getattr(found, "apply", found)
    if not callable(function):
        raise HoodieConfigException(
            f"{given} is {type(found).__name__}: name a function(table, properties), a class with "
            "apply(table, properties), or a subclass of hoodie.utilities.transform.transformer.Transformer"
        )
    return FunctionTransformer(function)
