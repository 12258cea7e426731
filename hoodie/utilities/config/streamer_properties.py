"""The properties of a run of the streamer: those that files, flags and callers give, as one map of texts.

Hudi: org.apache.hudi.common.config.TypedProperties, DFSPropertiesConfiguration.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import attrs

from hoodie.common.config.property import display_value, properties_of, read_group, to_property_value
from hoodie.exception import HoodieConfigException
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_path import join

G = TypeVar("G")

PREFIX = "hoodie.streamer."
OLD_PREFIX = "hoodie.deltastreamer."
"""The prefix up to Hudi 0.13; every key is accepted with it too."""


def spellings(key: str) -> tuple[str, ...]:
    """A key and its older spelling.

    Args:
        key: A key; only one that begins with ``hoodie.streamer.`` has an older spelling.

        >>> spellings("hoodie.streamer.source.dfs.root")
        ('hoodie.streamer.source.dfs.root', 'hoodie.deltastreamer.source.dfs.root')
    """
    if not key.startswith(PREFIX):
        return (key,)
    return (key, OLD_PREFIX + key.removeprefix(PREFIX))


@attrs.frozen(repr=False)
class StreamerProperties(Mapping[str, str]):
    """All properties of a run. Picklable; prints without secrets.

    ``properties["hoodie.streamer.X"]`` also finds the older spelling ``hoodie.deltastreamer.X``. Iteration gives the
    keys as they were written.

    Attributes:
        given: Key -> text, as written.
    """

    given: Mapping[str, str] = attrs.field(factory=dict)

    @classmethod
    def of(cls, properties: Mapping[str, Any]) -> StreamerProperties:
        """Properties of a caller, whose values may be booleans, numbers or lists.

        Args:
            properties: Key -> value.

        Raises:
            HoodieConfigException: Keys are not text, or values have no text.
        """
        given: dict[str, str] = {}
        problems = []
        for key, value in properties.items():
            try:
                given[str(key)] = to_property_value(value)
            except ValueError as error:
                problems.append(f"{key} = {display_value(str(key), value)}: must be {error}")
        if problems:
            raise HoodieConfigException("; ".join(problems))
        return cls(given)

    def __getitem__(self, key: str) -> str:
        for spelling in spellings(key):
            if spelling in self.given:
                return self.given[spelling]
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self.given)

    def __len__(self) -> int:
        return len(self.given)

    def __repr__(self) -> str:
        shown = ", ".join(f"{key!r}: {display_value(key, value)}" for key, value in sorted(self.given.items()))
        return f"StreamerProperties({{{shown}}})"

    def read(self, group: type[G]) -> G:
        """Read a group of typed properties.

        Args:
            group: An attrs class with fields made by `hoodie.common.config.property.property_field`, whose keys have
                the newer spelling only.

        Raises:
            HoodieConfigException: Values are not allowed, or two spellings contradict each other; one message names all
                of these.
        """
        problems: list[str] = []
        read = read_group(group, self._in_new_spelling(group, problems), problems)
        if problems:
            raise HoodieConfigException("; ".join(problems))
        return read

    def _in_new_spelling(self, group: type[Any], problems: list[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for prop in properties_of(group).values():
            for key in prop.keys:
                values = {name: self.given[name] for name in spellings(key) if name in self.given}
                if len(set(values.values())) > 1:
                    named = " and ".join(f"{name} = {display_value(name, text)}" for name, text in values.items())
                    problems.append(f"{named} mean the same property: give one of them")
                if values:
                    found[key] = next(iter(values.values()))
        return found

    def with_(self, others: Mapping[str, str]) -> StreamerProperties:
        """These properties and others, which win over both spellings of these.

        Args:
            others: Key -> text.
        """
        hidden = {name for key in others for name in _both(key)}
        return StreamerProperties({**{k: v for k, v in self.given.items() if k not in hidden}, **others})

    def under(self, prefix: str) -> dict[str, str]:
        """The properties whose keys begin with a prefix, without it; both spellings.

        Args:
            prefix: The prefix, such as ``hoodie.streamer.source.hoodieincr.data.datasource.options.``.
        """
        return {
            key.removeprefix(spelling): value
            for spelling in reversed(spellings(prefix))
            for key, value in self.given.items()
            if key.startswith(spelling)
        }


def parse_dfs_properties(storage: HoodieStorage, path: str, _open: tuple[str, ...] = ()) -> dict[str, str]:
    """Read a properties file as Hudi reads one: a line is ``key=value``; the first ``=`` splits.

    Without ``=``, the first blank splits. Lines that are empty, begin with ``#`` or have neither are passed over. Runs
    of white space become one blank. There are no escapes, and no lines that go on in the next one. ``include=FILE``
    reads another file, beside this one unless its path is absolute; if that one is missing, nothing is read.

    Args:
        storage: The storage of the file.
        path: The path.

    Raises:
        FileNotFoundError: There is no such file.
        HoodieConfigException: Files include each other.
        HoodieIOException: The file cannot be read.

    Source: org.apache.hudi.common.config.DFSPropertiesConfiguration.
    """
    if path in _open:
        raise HoodieConfigException(f"properties files include each other: {' -> '.join((*_open, path))}")
    properties: dict[str, str] = {}
    for line in storage.read(path).decode("utf-8-sig", "replace").splitlines():
        text = " ".join(line.split())
        if not text or text.startswith("#") or ("=" not in text and " " not in text):
            continue
        key, _, value = text.partition("=" if "=" in text else " ")
        key, value = key.strip(), value.strip()
        if key != "include":
            properties[key] = value
            continue
        is_absolute = "://" in value or value.startswith(("/", "file:"))
        included = value if is_absolute else join(posixpath.dirname(path), value)
        try:
            properties |= parse_dfs_properties(storage, included, (*_open, path))
        except FileNotFoundError:
            continue
    return properties


def _both(key: str) -> tuple[str, ...]:
    if key.startswith(OLD_PREFIX):
        return spellings(PREFIX + key.removeprefix(OLD_PREFIX))
    return spellings(key)
