"""The options of format("hoodie"), without Spark."""

from __future__ import annotations

import pytest

from hoodie.config.read_config import ChangeForm, QueryType
from hoodie.exception import HoodieConfigException
from hoodie.spark.data_source_options import DataSourceOptions


def test_options_are_taken_in_any_case() -> None:
    options = DataSourceOptions.of(
        {
            "Path": "/t",
            "COLUMNS": " a, b c ",
            "filter": "a > 1",
            "storage.Region": "eu",
            "storage.anonymous": "True",
            "storage.client_options": '{"timeout": "5s"}',
            "hoodie.datasource.QUERY.type": "incremental",
            "hoodie.datasource.read.begin.instanttime": "000",
            "hoodie.datasource.read.incr.filters": "b = 1, c = 'x'",
        }
    )
    assert options.path == "/t"
    assert options.columns == ("a", "b c")
    assert str(options.filters) == '(((a > 1) and (b == 1)) and (c == "x"))'
    assert options.storage_options == {"region": "eu", "anonymous": True, "client_options": {"timeout": "5s"}}
    query = options.query()
    assert (query.query_type, query.times.begin, query.columns) == (QueryType.INCREMENTAL, "000", ("a", "b c"))


def test_without_options_all_is_read() -> None:
    options = DataSourceOptions.of({"path": "/t"})
    assert (options.columns, options.filters, options.storage_options) == (None, None, None)
    assert options.query().query_type is QueryType.SNAPSHOT


def test_names_with_commas_stand_in_a_list() -> None:
    assert DataSourceOptions.of({"path": "/t", "columns": '["a,b", "c"]'}).columns == ("a,b", "c")


def test_values_of_the_storage_are_not_shown() -> None:
    assert "geheim" not in repr(DataSourceOptions.of({"path": "/t", "storage.secret_access_key": "geheim"}))
    with pytest.raises(HoodieConfigException) as error:
        DataSourceOptions.of({"path": "/t", "storage.secret": "{geheim"})
    assert "storage.secret" in str(error.value) and "geheim" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "the table's folder is missing"),
        ({"path": " "}, "the table's folder is missing"),
        ({"paths": '["/a", "/b"]'}, "hoodie reads one table"),
        ({"path": "/t", "colums": "a"}, "unknown option colums, did you mean columns?"),
        ({"path": "/t", "as.of.instnt": "a"}, "did you mean as.of.instant?"),
        ({"path": "/t", "header": "true"}, "unknown option header; format"),
        ({"path": "/t", "hoodie.datasource.query.typ": "snapshot"}, "did you mean hoodie.datasource.query.type?"),
        ({"path": "/t", "columns": ""}, "the option columns is ''"),
        ({"path": "/t", "columns": "[1]"}, "the option columns is"),
        ({"path": "/t", "columns": "[a"}, "the option columns is"),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(HoodieConfigException) as error:
        DataSourceOptions.of(options)
    assert message in str(error.value)


def test_the_option_of_hudi_asks_for_changes_in_its_form() -> None:
    given = {
        "path": "/t", "hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": "0",
        "hoodie.datasource.query.incremental.format": "cdc",
    }  # fmt: skip
    by_hudi = DataSourceOptions.of(given).query().changes
    assert by_hudi is not None
    assert (by_hudi.form, by_hudi.by_request) == (ChangeForm.HUDI, True)
    typed = DataSourceOptions.of({**given, "hoodie.read.changes.form": "typed"}).query().changes
    assert typed is not None
    assert (typed.form, typed.by_request) == (ChangeForm.TYPED, False)
