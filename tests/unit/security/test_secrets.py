"""No secret of an option is printed, logged or part of an error."""

from __future__ import annotations

import logging
import pickle
import traceback
from pathlib import Path

import pytest

from hoodie import HoodieLocalWriteClient, HoodieWriteConfig
from hoodie.exception import HoodieException
from tests.support.services_table import ServicesTable

SECRET = "hunter2"
WITH_SECRETS = {
    "hoodie.write.commit.callback.on": "true",
    "hoodie.write.commit.callback.http.url": f"http://localhost:1/{SECRET}",
    "hoodie.write.commit.callback.http.api.key": SECRET,
    "hoodie.write.commit.callback.http.custom.headers": f"Authorization:Bearer {SECRET}",
    "hoodie.write.commit.callback.http.timeout.seconds": "1",
    "hoodie.index.database.url": f"postgresql://me:{SECRET}@localhost:1/x",
    "fs.s3a.secret.key": SECRET,
    "hoodie.metrics.pushgateway.report.labels": "team:data",
}


@pytest.mark.parametrize("key", sorted(WITH_SECRETS))
def test_an_option_with_a_secret_is_not_printed(tmp_path: Path, key: str) -> None:
    config = HoodieWriteConfig.from_properties(str(tmp_path), {key: WITH_SECRETS[key]}, {"key": SECRET})
    shown = [repr(config), str(config), repr(pickle.loads(pickle.dumps(config)))]
    shown += [repr(getattr(config, group)) for group in ("callback", "index", "lock", "metrics", "write", "table")]
    assert SECRET not in "\n".join(shown)


@pytest.mark.parametrize("key", sorted(WITH_SECRETS))
def test_an_option_with_a_secret_is_not_in_the_error_about_it(tmp_path: Path, key: str) -> None:
    properties = {key: WITH_SECRETS[key], f"{key}s": WITH_SECRETS[key], "hoodie.auto.commit": "perhaps"}
    with pytest.raises(HoodieException) as raised:
        HoodieWriteConfig.from_properties(str(tmp_path), properties, {"key": SECRET})
    assert SECRET not in "".join(traceback.format_exception(raised.value))


def test_a_write_logs_and_stores_no_secret(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    table = ServicesTable(tmp_path / "t")
    options = {key: value for key, value in WITH_SECRETS.items() if "database" not in key}
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(table.base_path), options)) as client:
        with pytest.raises(HoodieException) as raised:
            client.upsert({"id": ["a"]})
        shown = [repr(client), "".join(traceback.format_exception(raised.value))]
    with table.client(**{key.replace(".", "__"): value for key, value in options.items()}) as client:
        with pytest.raises(AssertionError) as failed:
            table.upsert("a", client=client)
        shown += [repr(client), str(failed.value)]
    shown += [caplog.text, *(str(record.__dict__) for record in caplog.records)]
    assert "could not be sent" in "\n".join(shown)
    assert SECRET not in "\n".join(shown)
    for path in table.base_path.rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()


def test_a_database_that_is_not_there_is_named_without_its_password(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    table = ServicesTable(tmp_path / "t")
    options = {"hoodie__index__class": "hoodie.index.external.database_index.HoodieDatabaseIndex"}
    options["hoodie__index__database__url"] = WITH_SECRETS["hoodie.index.database.url"]
    with table.client(**options) as client, pytest.raises(HoodieException) as raised:
        table.upsert("a", client=client)
    assert SECRET not in "".join(traceback.format_exception(raised.value))
