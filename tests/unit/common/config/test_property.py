"""Values of properties: what parses, what does not, and how Python values are written."""

from __future__ import annotations

from enum import StrEnum

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.config.property import (
    Parser,
    boolean,
    choice,
    decimal,
    display_value,
    integer,
    property_field,
    read_group,
    text,
    to_property_value,
)
from tests.support.configuration_page import descriptions_of


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@attrs.frozen(kw_only=True)
class Group:
    size: int = property_field("hoodie.size", integer(minimum=1), 7, alternatives=("hoodie.old.size",))
    """The size."""
    flag: bool = property_field("hoodie.flag", boolean(), False)
    """Whether it is
    flagged."""


def test_the_string_below_a_field_describes_its_property() -> None:
    assert descriptions_of(Group) == {"size": "The size.", "flag": "Whether it is flagged."}


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_whole_number_survives_writing_and_parsing(number: int) -> None:
    assert integer().parse(to_property_value(number)) == number


@given(st.booleans())
def test_a_boolean_survives_writing_and_parsing(value: bool) -> None:
    assert boolean().parse(to_property_value(value)) is value


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_a_number_survives_writing_and_parsing(number: float) -> None:
    assert decimal(above=0.0).parse(to_property_value(number)) == number


@given(st.text())
def test_a_whole_number_either_parses_like_python_or_is_refused(value: str) -> None:
    try:
        number = integer(minimum=0).parse(value)
    except ValueError:
        return
    assert value.isascii()
    assert number == int(value) >= 0


@given(st.text().filter(lambda value: value.lower() not in ("true", "false")))
def test_any_other_word_is_no_boolean(value: str) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        boolean().parse(value)


@pytest.mark.parametrize(
    "value", ["", "1 GB", "1.5", "0x10", "1_000", "٣", "99999999999999999999999", "9223372036854775808", "-1"]
)
def test_text_that_is_no_whole_number_of_at_least_zero_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        integer(minimum=0).parse(value)


@pytest.mark.parametrize("value", ["", "nan", "inf", "1e999", "0", "-0.5", "1.0", "0,5"])
def test_text_that_is_no_share_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        decimal(above=0.0, below=1.0).parse(value)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (True, "true"),
        (1_000_000.0, "1000000"),
        (1e-9, "1e-09"),
        (Colour.RED, "red"),
        (Colour, f"{Colour.__module__}.Colour"),
        (["a", "b"], "a,b"),
        (("a",), "a"),
        ("x", "x"),
        (Parser, "hoodie.common.config.property.Parser"),
    ],
)
def test_python_values_are_written_as_hudi_writes_them(value: object, written: str) -> None:
    assert to_property_value(value) == written


@pytest.mark.parametrize("value", [None, {"a": 1}, [1, 2], float("nan"), object()])
def test_other_python_values_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="number"):
        to_property_value(value)


def test_a_choice_takes_any_case_and_aliases_and_tells_what_is_not_supported() -> None:
    parser = choice(Colour, aliases={"CRIMSON": Colour.RED}, unsupported={"GREEN": "mix it"})
    assert parser.parse("Blue") is Colour.BLUE
    assert parser.parse("crimson") is Colour.RED
    with pytest.raises(
        ValueError, match=r"^Hudi has it, hoodie does not support it yet: mix it; supported: red or blue$"
    ):
        parser.parse("green")
    with pytest.raises(ValueError, match=r"^$"):
        parser.parse("yellow")


def test_text_must_not_be_empty() -> None:
    with pytest.raises(ValueError, match=r"^$"):
        text().parse("")


def test_a_group_reads_the_older_spelling_and_strips_blanks() -> None:
    problems: list[str] = []
    assert read_group(Group, {"hoodie.old.size": " 3 ", "hoodie.flag": "TRUE"}, problems) == Group(size=3, flag=True)
    assert problems == []


def test_two_spellings_must_not_contradict_each_other() -> None:
    problems: list[str] = []
    read_group(Group, {"hoodie.old.size": "3", "hoodie.size": "4"}, problems)
    assert problems == ["hoodie.size = '4' and hoodie.old.size = '3' mean the same property: give one of them"]


def test_a_value_that_does_not_parse_is_a_problem_and_leaves_the_default() -> None:
    problems: list[str] = []
    assert read_group(Group, {"hoodie.size": "0", "hoodie.flag": "yes"}, problems) == Group()
    assert problems == [
        "hoodie.size = '0': must be a whole number, at least 1",
        "hoodie.flag = 'yes': must be true or false",
    ]


def test_secrets_are_not_displayed_and_long_values_are_cut() -> None:
    assert display_value("hoodie.datasource.hive_sync.password", "hive") == "'***'"
    assert len(display_value("hoodie.avro.schema", "x" * 1000)) == 100


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("postgresql://me@corp:s3cr3t@db/x", "postgresql://me@corp:***@db/x"),
        ("postgresql://me:a/s3cr3t@db/x", "postgresql://me:***@db/x"),
        ("postgresql://me:a?s3cr3t@db/x", "postgresql://me:***@db/x"),
        ("jdbc:sqlserver://db;user=sa;password=s3cr3t;x=1", "jdbc:sqlserver://db;user=sa;password=***;x=1"),
        ("password=s3cr3t host=db", "password=*** host=db"),
        ("host=db password = 'a s3cr3t' user=me", "host=db password = *** user=me"),
        ("abfs://c@a/x?sv=1&sig=s3cr3t&se=2", "abfs://c@a/x?sv=1&sig=***&se=2"),
        ("https://db/x?access_token=s3cr3t", "https://db/x?access_token=***"),
        ("jdbc:mysql://db/x?user=me&password=s3;cr3t", "jdbc:mysql://db/x?user=me&password=***"),
        ("hdfs://name:8020/by/me@corp/t", "hdfs://name:8020/by/me@corp/t"),
        ("file:///data/a:b@c/t", "file:///data/a:b@c/t"),
    ],
)
def test_secrets_inside_values_are_not_displayed(value: str, shown: str) -> None:
    assert display_value("hoodie.some.url", value).strip("'\"") == shown


@pytest.mark.parametrize(
    "key", ["a.passwd", "a.passphrase", "a.private_key", "a.api_key", "a.access-key", "a.accountKey"]
)
def test_keys_of_secrets_are_known_in_their_spellings(key: str) -> None:
    assert display_value(f"hoodie.{key}", "s3cr3t") == "'***'"
