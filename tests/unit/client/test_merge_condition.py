"""The condition of a merge, without Spark."""

from __future__ import annotations

import pytest

from hoodie.client.merge_condition import KeyPair, check_pairs, parse_condition
from hoodie.exception import HoodieConfigException


@pytest.mark.parametrize(
    ("on", "pairs"),
    [
        ("t.id = s.id", [("id", ("id",))]),
        ("s.other==T.id", [("id", ("other",))]),
        ("(t.id = s.id) AND ((t.`a b` = s.`x``y` and s.c = t.c))", [("id", ("id",)), ("a b", ("x`y",)), ("c", ("c",))]),
        ("t.fare.amount = s.a.b", [("fare.amount", ("a", "b"))]),
        ("t.und = s.and_", [("und", ("and_",))]),
        (["id", "a.b"], [("id", ("id",)), ("a.b", ("a", "b"))]),
        ("id", [("id", ("id",))]),
        ("rider id", [("rider id", ("rider id",))]),
    ],
)
def test_a_condition_names_pairs(on: str | list[str], pairs: list[tuple[str, tuple[str, ...]]]) -> None:
    assert parse_condition(on, "t", "s") == tuple(KeyPair(*pair) for pair in pairs)


@pytest.mark.parametrize(
    "on",
    [
        "",
        "t.id",
        "t.id = s.id + 1",
        "t.id = 5",
        "t.id = 'x'",
        "t.id = t.id",
        "s.id = s.id",
        "id = s.id",
        "t.id = s.id OR t.a = s.a",
        "t.id = s.id AND",
        "t.id = s.id t.a = s.a",
        "(t.id = s.id",
        "t.id <=> s.id",
        "t.id = lower(s.id)",
        "x.id = s.id",
        "t.`id = s.id",
    ],
)
def test_any_other_condition_is_refused(on: str) -> None:
    with pytest.raises(HoodieConfigException, match=r"has another form than an AND of equalities.*t\.id = s\.id AND"):
        parse_condition(on, "t", "s")


@pytest.mark.parametrize("on", [[], None, 5, ["id", 3], {"id": "id"}])
def test_a_condition_is_text_or_names(on: object) -> None:
    with pytest.raises(HoodieConfigException, match="on is .*: give a condition"):
        parse_condition(on, "t", "s")  # type: ignore[arg-type]


def test_aliases_are_those_that_are_given() -> None:
    assert parse_condition("trips.id = new.id", "trips", "new") == (KeyPair("id", ("id",)),)
    with pytest.raises(HoodieConfigException, match=r"trips\.id = new\.id AND"):
        parse_condition("t.id = s.id", "trips", "new")


def test_pairs_have_the_order_and_the_spelling_of_the_table() -> None:
    pairs = parse_condition("t.REGION = s.r AND t.id = s.id", "t", "s")
    assert check_pairs(pairs, ["id"], ["region"], False) == (KeyPair("id", ("id",)), KeyPair("region", ("r",)))


@pytest.mark.parametrize(
    ("on", "is_global", "text"),
    [
        ("t.region = s.region", False, "it does not compare id"),
        ("t.id = s.id AND t.region = s.region AND t.ts = s.ts", False, "it compares ts, which is not part of the key"),
        ("t.ts = s.ts", False, "the record key fields id: it does not compare id; it compares ts"),
        ("t.id = s.id AND t.region = s.region", True, "it compares region, and the index finds a key in all"),
        ("t.id = s.id AND t.ID = s.x AND t.region = s.region", False, "compares id twice"),
    ],
)
def test_a_condition_names_the_fields_of_the_key_and_no_others(on: str, is_global: bool, text: str) -> None:
    with pytest.raises(HoodieConfigException, match=text):
        check_pairs(parse_condition(on, "t", "s"), ["id"], ["region"], is_global)


@pytest.mark.parametrize("is_global", [True, False])
def test_the_record_key_alone_is_a_condition(is_global: bool) -> None:
    pairs = parse_condition("t.ID = s.id", "t", "s")
    assert check_pairs(pairs, ["id"], ["region", "day"], is_global) == (KeyPair("id", ("id",)),)


def test_some_of_the_partition_fields_are_no_condition() -> None:
    pairs = parse_condition("t.id = s.id AND t.region = s.region", "t", "s")
    with pytest.raises(HoodieConfigException, match="partition fields id, region, day: it does not compare day"):
        check_pairs(pairs, ["id"], ["region", "day"], False)
