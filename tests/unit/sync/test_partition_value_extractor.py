"""Extractors: the values of partition paths, their names, and the choice among them."""

from __future__ import annotations

from typing import Any

import pytest

from hoodie.exception import HoodieConfigException, HoodieSyncException
from hoodie.sync.partition_value_extractor import (
    EXTRACTOR_KEY,
    NonPartitionedExtractor,
    PartitionValueExtractor,
    create_partition_value_extractor,
    extract_values,
    infer_partition_value_extractor,
)
from tests.support.partition_paths import DAY, EXTRACTORS, HIVE, HOUR, MULTI, NONE, SINGLE, VALUES

CASES = [(name, path, values.get(name)) for path, values in VALUES.items() for name in EXTRACTORS if name != NONE]


class YearAndMonth(PartitionValueExtractor):
    """A user's class."""

    def extract_partition_values_in_path(self, partition_path: str) -> list[str]:
        year, month = partition_path.split("-")
        return [year, month]


class Numbers(PartitionValueExtractor):
    """A user's class that gives no texts."""

    def extract_partition_values_in_path(self, partition_path: str) -> Any:
        return [len(partition_path)]


class WithArgument(YearAndMonth):
    """A user's class that cannot be made without arguments."""

    def __init__(self, separator: str) -> None:
        self.separator = separator


@pytest.mark.parametrize(("name", "path", "values"), CASES)
def test_values_of_a_path(name: str, path: str, values: list[str] | None) -> None:
    extractor = create_partition_value_extractor(name)
    if values is not None:
        assert extract_values(extractor, path) == tuple(values)
        assert extractor.value_count in (None, len(values))
        return
    with pytest.raises(HoodieSyncException) as caught:
        extract_values(extractor, path)
    message = str(caught.value)
    assert message.startswith(
        f"the partition values of {path!r} by {name}: it takes paths of the form {extractor.form}"
    )
    assert f"set {EXTRACTOR_KEY} to one" in message


@pytest.mark.parametrize("path", VALUES)
def test_a_table_without_partitions_has_no_values(path: str) -> None:
    assert extract_values(NonPartitionedExtractor(), path) == ()


@pytest.mark.parametrize("name", EXTRACTORS)
def test_extractors_are_found_by_hudis_names(name: str) -> None:
    for given in (name, f"org.apache.hudi.hive.{name}"):
        assert type(create_partition_value_extractor(given)).__name__ == name


@pytest.mark.parametrize("separator", [".", ":"])
def test_a_class_of_the_user_is_found_by_its_name(separator: str) -> None:
    extractor = create_partition_value_extractor(f"{__name__}{separator}YearAndMonth")
    assert extract_values(extractor, "2026-11") == ("2026", "11")


def test_an_error_of_a_users_class_names_path_and_class() -> None:
    with pytest.raises(
        HoodieSyncException, match=r"'2026' by YearAndMonth: it does not take this path \(ValueError: not enough"
    ):
        extract_values(YearAndMonth(), "2026")


def test_values_that_are_not_texts_are_refused() -> None:
    with pytest.raises(
        HoodieSyncException, match=r"of 'a' by Numbers are \[1\]: extract_partition_values_in_path must"
    ):
        extract_values(Numbers(), "a")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("MultiPartKeysExtractor", "there is no such extractor: give one of NonPartitionedExtractor, HiveStyle"),
        ("org.apache.hudi.hive.MultiPart", "there is no such extractor"),
        ("com.example.Extractor", "looks like a class of Java"),
        (f"{__name__}.NoSuch", "cannot be imported"),
        (f"{__name__}.WithArgument", "is called with no argument"),
        ("pathlib.Path", "is not a subclass of hoodie.PartitionValueExtractor"),
        ("hoodie.sync.partition_value_extractor.PartitionValueExtractor", "does not define extract_partition_values"),
    ],
)
def test_a_name_without_a_class_is_refused(name: str, words: str) -> None:
    with pytest.raises(HoodieConfigException) as caught:
        create_partition_value_extractor(name)
    assert str(caught.value).startswith(f"{EXTRACTOR_KEY} = ")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("partition_fields", "table_fields", "hive_style", "name"),
    [
        ((), (), False, NONE),
        ((), ("day",), True, NONE),
        (("day",), ("day",), False, SINGLE),
        (("day",), ("day",), True, HIVE),
        (("region", "day"), ("region", "day"), True, MULTI),
        (("year", "month", "day"), ("ts",), False, MULTI),
        (("day",), ("region", "day"), True, MULTI),
    ],
)
def test_the_extractor_follows_from_the_partition_fields(
    partition_fields: tuple[str, ...], table_fields: tuple[str, ...], hive_style: bool, name: str
) -> None:
    assert infer_partition_value_extractor(partition_fields, table_fields, hive_style=hive_style) == name


@pytest.mark.parametrize(("extractor", "path"), [(DAY, "2024/03/31"), (HOUR, "2024/03/31/02")])
def test_hours_that_the_clock_skips_keep_their_value(
    extractor: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    assert extract_values(create_partition_value_extractor(extractor), path) == (path.replace("/", "-"),)
