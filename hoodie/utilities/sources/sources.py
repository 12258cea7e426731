"""The source that ``--source-class`` names: one of Hudi's, a subclass of `Source`, or a plain class of a user's."""

from __future__ import annotations

from typing import Any

from hoodie.exception import HoodieConfigException
from hoodie.utilities.class_names import SOURCES, find_class
from hoodie.utilities.sources.python_source import PythonSource, PythonSourceName
from hoodie.utilities.sources.source import Source, SourceContext
from hoodie.utilities.user_code import load_attribute, make_object

FLAG = "--source-class"


def make_source(name: str, context: SourceContext) -> Source:
    """Make the source that a user names.

    Args:
        name: A class of Hudi, with or without its package; or ``module:Class``, ``module:function`` or
            ``module.Class`` of a user's: a subclass of `Source`, or a plain class or function, see
            `hoodie.utilities.sources.python_source`.
        context: The context of the run.

    Raises:
        HoodieConfigException: There is no such source, or it cannot be made; or it needs Spark, and there is none.
    """
    name = name.strip()
    if ":" not in name and (name.startswith("org.apache.hudi.") or "." not in name):
        source: Source = find_class(name, SOURCES, FLAG, Source)(context)
    else:
        module, _, attribute = name.rpartition(":" if ":" in name else ".")
        found: Any = load_attribute(module, attribute, f"{FLAG} = {name}")
        if isinstance(found, type) and issubclass(found, Source):
            source = make_object(found, f"{FLAG} = {name}", context)
        else:
            source = PythonSource(context, PythonSourceName(module, attribute, dict(context.properties.given), FLAG))
    if source.needs_spark and context.spark is None:
        raise HoodieConfigException(f"{FLAG} = {name} works with Spark only: give --engine spark")
    return source
