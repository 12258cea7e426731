"""The command line of the streamer, as `StreamerConfig`: Hudi's flags, and the short form.

A whole command line of Hudi can be pasted, from what follows the class on. What is wrong is told all at once.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import attrs

from hoodie.exception import HoodieConfigException
from hoodie.utilities.streamer.streamer_config import FLAGS, MOST, NO_PROPS, Flag, StreamerConfig

_SUFFIXES = {
    ".json": "JsonDFSSource", ".jsonl": "JsonDFSSource", ".ndjson": "JsonDFSSource",
    ".parquet": "ParquetDFSSource", ".csv": "CsvDFSSource", ".avro": "AvroDFSSource",
}  # fmt: skip
_COMPRESSED = (".gz", ".bz2", ".zst")
_PREFIX = "hoodie.streamer."
_SUBMIT_SWITCHES = frozenset({"--supervise", "--verbose", "-v", "--help", "--version"})
"""The options of ``spark-submit`` without a value."""


@attrs.define
class _Reading:
    """The part of a command line that was read so far."""

    values: dict[str, Any] = attrs.field(factory=dict)
    positional: list[str] = attrs.field(factory=list)
    problems: list[str] = attrs.field(factory=list)
    lines: list[str] = attrs.field(factory=list)


def parse_arguments(arguments: Sequence[str], say: Callable[[str], None] = lambda line: None) -> StreamerConfig:
    """Read a command line.

    Args:
        arguments: The words after ``hoodie streamer``.
        say: Takes lines for the user: about the jar of a pasted command, and about flags that mean nothing here.

    Raises:
        HoodieConfigException: Flags are unknown, lack a value, have a wrong one or contradict each other: one message
            names all of these.
    """
    words, _ = for_the_streamer(arguments, say)
    reading = _read(words)
    for word in reading.positional[:]:
        if word.endswith(".jar"):
            reading.lines.append(f"{word} is not needed: hoodie has no jar")
            reading.positional.remove(word)
    values = _short_form(reading)
    if reading.positional:
        is_expanded = any(word.lower().endswith((*_SUFFIXES, *_COMPRESSED)) for word in reading.positional)
        hint = "; if the shell has expanded a glob, put it into quotes: --from '*.json'" if is_expanded else ""
        reading.problems.append(
            f"{' '.join(map(shlex.quote, reading.positional))}: not a flag; the one word without a flag is the table's "
            f"folder{hint}"
        )
    if not values.get("target_base_path"):
        reading.problems.append("--target-base-path is missing: the table's folder")
    for line in reading.lines:
        say(line)
    try:
        if not reading.problems:
            return StreamerConfig(**values)
    except HoodieConfigException as error:
        reading.problems.append(str(error))
    lines = "".join(f"\n  - {problem}" for problem in reading.problems)
    raise HoodieConfigException(f"the command line of the streamer, {_counted(len(reading.problems))}:{lines}")


def for_the_streamer(arguments: Sequence[str], say: Callable[[str], None]) -> tuple[list[str], bool]:
    """The words of a command line that are the streamer's, and whether it is the one for several tables.

    A pasted ``spark-submit`` has its own options, the class and a jar before them, in any order.

    Args:
        arguments: The words after ``hoodie streamer``.
        say: Takes lines for the user, about words that are not used.

        >>> for_the_streamer(["multi", "--props", "x"], print)
        (['--props', 'x'], True)
    """
    words = list(arguments)
    if words[:1] == ["multi"]:
        return words[1:], True
    is_submit = bool(words) and words[0].rpartition("/")[2] == "spark-submit"
    if not is_submit and "--class" not in words:
        return words, False
    before = words[1:] if is_submit else words
    own: list[str] = []
    class_name = ""
    while before and before[0].startswith("-"):
        flag, equals, value = before.pop(0).partition("=")
        if not equals and flag not in _SUBMIT_SWITCHES and before:
            value = before.pop(0)
        if flag == "--class":
            class_name = value
        else:
            own.append(f"{flag} {value}".strip())
    if own:
        say(f"options of spark-submit are not used: {', '.join(own)}")
    if before and before[0].endswith(".jar"):
        say(f"{before.pop(0)} is not needed: hoodie has no jar")
    elif before:
        # The class came last, and what follows it begins with the application, whatever its name.
        say(f"{before.pop(0)} is not needed: hoodie has no jar")
    return before, "MultiTable" in class_name


def help_text(is_multi: bool = False) -> str:
    """The usage: all flags, one line each.

    Args:
        is_multi: Whether that of the command for several tables is asked for.
    """
    lines = [
        "hoodie streamer PATH --from kafka://HOST:PORT/TOPIC --record-key ID [--partition P] [--ordering TS]",
        "hoodie streamer --target-base-path PATH --target-table NAME --table-type COPY_ON_WRITE --source-class ... ",
        "hoodie streamer multi --props FILE --config-folder FOLDER --base-path-prefix PATH --source-class ...",
        "",
    ]
    if is_multi:
        lines += [
            "  --props             the file of common properties; hoodie.streamer.ingestion.tablesToBeIngested names "
            "the tables",
            "  --config-folder     the folder with a file for each table: DATABASE_TABLE_config.properties",
            "  --base-path-prefix  the folder of the tables: PREFIX/DATABASE/TABLE",
            "  --parallelism       * the most tables that run at once; all in continuous mode",
            "",
        ]
    lines += ["All flags of Hudi's streamer, and those marked * of hoodie:", ""]
    shown = [flag for flag in FLAGS if flag.kind not in ("ignored", "refused")]
    width = max(len(", ".join(flag.names)) for flag in shown)
    for flag in shown:
        lines.append(f"  {', '.join(flag.names):{width}}  {'* ' if flag.is_ours else ''}{flag.help}")
    return "\n".join(lines)


def _read(words: list[str]) -> _Reading:
    by_name = {name: flag for flag in FLAGS for name in flag.names}
    reading = _Reading()
    at = 0
    while at < len(words):
        name, equals, given = words[at].partition("=")
        at += 1
        if not name.startswith("-") or name == "-":
            reading.positional.append(words[at - 1])
            continue
        flag = by_name.get(name)
        if flag is None:
            nearest = difflib.get_close_matches(name, by_name, 1, 0)[0]
            reading.problems.append(f"{name}: there is no such flag; nearest: {nearest}")
            # A word that follows is most likely its value.
            if not equals and at < len(words) and not words[at].startswith("-"):
                at += 1
            continue
        value: str | None = given if equals else None
        if flag.kind == "switch":
            # JCommander takes no value here; some write one.
            if value is None and at < len(words) and words[at].lower() in ("true", "false"):
                value, at = words[at], at + 1
            reading.values[flag.field] = (value or "true").lower() == "true"
            continue
        is_value_next = at < len(words) and (not _is_flag(words[at], by_name) or flag.kind == "number")
        is_skipped = flag.kind == "refused" or (flag.kind == "ignored" and at < len(words) and words[at][:1] == "-")
        if value is None and is_value_next and not is_skipped:
            value, at = words[at], at + 1
        _take(reading, flag, name, value)
    return reading


def _is_flag(word: str, by_name: dict[str, Flag]) -> bool:
    return word.partition("=")[0] in by_name


def _take(reading: _Reading, flag: Flag, name: str, value: str | None) -> None:
    if flag.kind == "ignored":
        reading.lines.append(f"{name} changes nothing here: {flag.help}")
        return
    if flag.kind == "refused":
        reading.problems.append(f"{name}: {flag.help}")
        return
    if value is None:
        reading.problems.append(f"{name} lacks its value: {flag.help}")
        return
    if flag.kind == "number":
        try:
            number = int(value)
        except ValueError:
            reading.problems.append(f"{name} {value}: must be a whole number")
            return
        kept = None if flag.field == "source_limit" and number == MOST else number
        if reading.values.get(flag.field, kept) != kept:
            reading.problems.append(f"{name} is given twice: give one of them")
        reading.values[flag.field] = kept
        return
    if flag.kind == "list" and flag.field in ("hoodie_conf", "storage"):
        key, equals, text = value.partition("=")
        if not equals or not key.strip():
            # The text may be a secret, so it is not shown.
            reading.problems.append(f"{name}: give KEY=VALUE")
            return
        reading.values.setdefault(flag.field, {})[key.strip()] = text.strip()
        return
    if flag.kind == "list":
        names = tuple(word.strip() for word in value.split(",") if word.strip())
        reading.values[flag.field] = (*reading.values.get(flag.field, ()), *names)
        return
    if flag.choices:
        if value.upper() not in flag.choices:
            reading.problems.append(f"{name} {value}: must be {' or '.join(flag.choices)}")
            return
        value = value.upper()
    if reading.values.get(flag.field, value) != value:
        reading.problems.append(f"{name} is given twice: {reading.values[flag.field]} and {value}; give one of them")
    reading.values[flag.field] = value


def _short_form(reading: _Reading) -> dict[str, Any]:
    """The fields of `StreamerConfig`, with what the short form says."""
    values = dict(reading.values)
    if reading.positional and not values.get("target_base_path"):
        values["target_base_path"] = reading.positional.pop(0)
    conf = dict(values.get("hoodie_conf", {}))
    given = dict(conf)

    def put(key: str, value: str | None, flag: str) -> None:
        if value is None:
            return
        if given.get(key, value) != value:
            reading.problems.append(f"{flag} {value} and --hoodie-conf {key}={given[key]}: give one of them")
        conf[key] = value

    put("hoodie.datasource.write.recordkey.field", values.pop("record_key", None), "--record-key")
    put("hoodie.datasource.write.partitionpath.field", values.pop("partition", None), "--partition")
    schema = values.pop("schema", None)
    if schema is not None:
        put(f"{_PREFIX}schemaprovider.source.schema.file", schema, "--schema")
        values.setdefault("schema_provider_class", "FilebasedSchemaProvider")
    ordering = values.pop("ordering", None)
    if ordering is not None:
        if values.get("source_ordering_fields", ordering) != ordering:
            reading.problems.append("--ordering and --source-ordering-fields mean the same: give one of them")
        values["source_ordering_fields"] = ordering
    source = values.pop("from_", None)
    if source is not None:
        _from(source, values, put, reading.problems)
    if conf:
        values["hoodie_conf"] = conf
    if values.get("engine"):
        values["engine"] = values["engine"].lower()
    props = values.get("props")
    if props is not None and (not props or props.endswith(NO_PROPS)):
        del values["props"]
    return values


def _from(
    source: str, values: dict[str, Any], put: Callable[[str, str | None, str], None], problems: list[str]
) -> None:
    """Put in what ``--from`` says."""
    if source.startswith("kafka://"):
        parts = urlsplit(source)
        topic = parts.path.strip("/")
        if not parts.netloc or not topic or "/" in topic or parts.username is not None:
            problems.append(
                "--from: give kafka://HOST:PORT/TOPIC, several hosts separated by commas; user and password are "
                "properties (--hoodie-conf sasl.username=...)"
            )
            return
        put("bootstrap.servers", parts.netloc, "--from")
        put(f"{_PREFIX}source.kafka.topic", topic, "--from")
        # A table from a topic holds what the topic holds; Hudi begins at its end.
        put("auto.offset.reset", values.get("hoodie_conf", {}).get("auto.offset.reset", "earliest"), "--from")
        values.setdefault("source_class", "JsonKafkaSource")
        return
    name = source.rpartition("/")[2].lower()
    for suffix in _COMPRESSED:
        name = name.removesuffix(suffix)
    found = next((one for suffix, one in _SUFFIXES.items() if name.endswith(suffix)), None)
    if found is None and "source_class" not in values:
        problems.append(
            f"--from {source}: its end tells no format: {', '.join(_SUFFIXES)}, as in /data/in/*.json; or give "
            "--source-class"
        )
        return
    put(f"{_PREFIX}source.dfs.root", source, "--from")
    if found is not None:
        values.setdefault("source_class", found)
    if values.get("source_class") == "CsvDFSSource":
        # A file that a person names has a line of names; Spark assumes none.
        key = f"{_PREFIX}csv.header"
        put(key, values.get("hoodie_conf", {}).get(key, "true"), "--from")


def _counted(count: int) -> str:
    return "1 problem" if count == 1 else f"{count} problems"
