"""The condition of a merge: which columns of the target and of the source are the same key.

Hudi: recordKeyAttributeToConditionExpression of org.apache.spark.sql.hudi.command.MergeIntoHoodieTableCommand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import attrs
import pyarrow as pa

from hoodie.common.data.stored_types import field_finder, spelled_otherwise
from hoodie.common.util.shown_value import shown_value
from hoodie.exception import HoodieConfigException

_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|(\w+)|(==|=|\.|\(|\)))")
_FORM = "an AND of equalities, one for each field: {0}.id = {1}.id AND {0}.region = {1}.region"


@attrs.frozen
class KeyPair:
    """A field of the target's key, and the column of the source that it is compared with.

    Attributes:
        target: The name of the field; a dotted path leads into structs.
        source: The path of the column, name by name.
    """

    target: str
    source: tuple[str, ...]


def parse_condition(on: str | Sequence[str], target_alias: str, source_alias: str) -> tuple[KeyPair, ...]:
    """The pairs of a condition, in its order.

    Args:
        on: A condition such as ``t.id = s.id AND t.region = s.area``; or the name of a column that both sides have, or
            a list of names.
        target_alias: The name of the target in the condition.
        source_alias: The name of the source.

    Raises:
        HoodieConfigException: It is of another form.
    """
    form = _FORM.format(target_alias, source_alias)
    if isinstance(on, str):
        is_name = on.strip() and not set("=<>") & set(on) and on.partition(".")[0] not in (target_alias, source_alias)
        if is_name:
            return parse_condition([on], target_alias, source_alias)
        return tuple(_Parser(on, target_alias, source_alias, form).pairs())
    if not isinstance(on, list | tuple) or not on or not all(isinstance(name, str) for name in on):
        raise HoodieConfigException(f"on is {shown_value(on)}: give a condition, {form}; or a list of names of columns")
    return tuple(KeyPair(name, tuple(name.split("."))) for name in on)


def check_pairs(
    pairs: Sequence[KeyPair],
    record_key_fields: Sequence[str],
    partition_fields: Sequence[str],
    is_global: bool,
) -> tuple[KeyPair, ...]:
    """The pairs in the order of the table's fields, and with their spelling.

    Args:
        pairs: The pairs of the condition.
        record_key_fields: The record key fields of the target.
        partition_fields: The partition fields of the target.
        is_global: Whether the index finds a key in all partitions, so that partitions are no part of the key.

    Returns:
        The record key fields, then the partition fields; the record key fields alone if the condition compares no
        partition field: then it matches a key in whatever partition it is stored.

    Raises:
        HoodieConfigException: The condition lacks a field of the key, or has another column.
    """
    compared = {pair.target.lower() for pair in pairs}
    finds_everywhere = is_global or not any(field.lower() in compared for field in partition_fields)
    needed = [*record_key_fields, *(() if finds_everywhere else partition_fields)]
    given: dict[str, KeyPair] = {}
    for pair in pairs:
        name = next((field for field in needed if field.lower() == pair.target.lower()), pair.target)
        if name in given:
            raise HoodieConfigException(f"the condition compares {name} twice: compare each field of the key once")
        given[name] = attrs.evolve(pair, target=name)
    problems = [f"it does not compare {field}" for field in needed if field not in given]
    for name in given:
        if name not in needed:
            reason = "which is not part of the key; put it into the condition of a clause"
            if name in partition_fields:
                reason = "and the index finds a key in all partitions (hoodie.index.type); leave it out"
            problems.append(f"it compares {name}, {reason}")
    if problems:
        fields = "record key" if finds_everywhere else "record key and partition"
        raise HoodieConfigException(
            f"the condition of a merge finds rows by their key, the {fields} fields {', '.join(needed)}: "
            + "; ".join(problems)
        )
    return tuple(given[field] for field in needed)


def pairs_of_columns(pairs: Sequence[KeyPair], schema: pa.Schema, base_path: str) -> tuple[KeyPair, ...]:
    """The pairs with the spelling of the target's columns, for a table whose keys are generated.

    Args:
        pairs: The pairs of the condition.
        schema: The columns of the target.
        base_path: The folder of the target, for messages.

    Raises:
        HoodieConfigException: The condition compares what is no column of the target.
    """
    find, found = field_finder(schema), []
    for pair in pairs:
        name, dot, rest = pair.target.partition(".")
        whole, top = find(pair.target), find(name)
        if whole is None and top is None:
            raise HoodieConfigException(
                f"the condition compares {pair.target}, which is no column of {base_path}"
                f"{spelled_otherwise(schema.names, [name])}; its columns are {', '.join(schema.names)}"
            )
        target = whole.name if whole is not None else f"{top.name if top is not None else name}{dot}{rest}"
        found.append(attrs.evolve(pair, target=target))
    return tuple(found)


class _Parser:
    """Parses ``t.a = s.b AND (t.c = s.d)``."""

    def __init__(self, text: str, target_alias: str, source_alias: str, form: str) -> None:
        self._text = text
        self._target_alias = target_alias
        self._source_alias = source_alias
        self._form = form
        self._tokens = list(self._tokenise())
        self._position = 0

    def pairs(self) -> list[KeyPair]:
        pairs = self._conjunction()
        if self._position < len(self._tokens):
            raise self._refused()
        return pairs

    def _tokenise(self) -> Iterator[str]:
        position, text = 0, self._text.rstrip()
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                raise self._refused()
            yield found[1] or found[2] or found[3]
            position = found.end()

    def _conjunction(self) -> list[KeyPair]:
        pairs = self._term()
        while self._peek().upper() == "AND":
            self._position += 1
            pairs += self._term()
        return pairs

    def _term(self) -> list[KeyPair]:
        if self._peek() == "(":
            self._position += 1
            pairs = self._conjunction()
            self._expect(")")
            return pairs
        one = self._path()
        self._expect("=", "==")
        other = self._path()
        by_alias = {one[0].lower(): one[1:], other[0].lower(): other[1:]}
        target, source = by_alias.get(self._target_alias.lower()), by_alias.get(self._source_alias.lower())
        if not target or not source:
            raise self._refused()
        return [KeyPair(".".join(target), source)]

    def _path(self) -> tuple[str, ...]:
        names = [self._name()]
        while self._peek() == ".":
            self._position += 1
            names.append(self._name())
        return tuple(names)

    def _name(self) -> str:
        token = self._peek()
        if token.startswith("`"):
            self._position += 1
            return token[1:-1].replace("``", "`")
        if not re.fullmatch(r"\w+", token):
            raise self._refused()
        self._position += 1
        return token

    def _expect(self, *wanted: str) -> None:
        if self._peek() not in wanted:
            raise self._refused()
        self._position += 1

    def _peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def _refused(self) -> HoodieConfigException:
        return HoodieConfigException(
            f"the condition {self._text!r} of a merge has another form than {self._form}. Compute other values in the "
            "source first, and put other conditions into the clauses"
        )
