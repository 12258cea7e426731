"""The choice of folders of the last days; the vectors are those of Hudi's TestDatePartitionPathSelector."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from hoodie.exception import HoodieConfigException, HoodieReadFromSourceException
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.sources.helpers.date_partition_path_selector import DatePartitionPathSelector
from tests.support.object_store_servers import Bucket

DAYS = [datetime.date(2020, 7, day) for day in range(21, 26)]
FORMS = {"yyyyMMdd": "%Y%m%d", "yyyyMMMdd": "%Y%b%d", "yyyy-MM-dd": "%Y-%m-%d", "yyyy-MMM-dd": "%Y-%b-%d"}


def selector(root: Path | str, form: str, depth: int, lookback: int, today: str) -> DatePartitionPathSelector:
    """A selector of dated folders."""
    dated = "hoodie.streamer.source.dfs.datepartitioned."
    return DatePartitionPathSelector(
        StreamerProperties.of(
            {
                "hoodie.streamer.source.dfs.root": str(root),
                f"{dated}date.format": form,
                f"{dated}selector.depth": depth,
                f"{dated}selector.lookback.days": lookback,
                f"{dated}selector.currentdate": today,
                f"{dated}selector.parallelism": 2,
            }
        )
    )


def fill(root: Path, levels: int, form: str, prefix: str) -> None:
    """Five folders at each of the levels above folders of five days, with a file in each."""
    if levels > 0:
        for number in range(5):
            fill(root / f"parent{number}", levels - 1, form, prefix)
        return
    for day in DAYS:
        folder = root / f"{prefix}{day.strftime(FORMS[form])}"
        folder.mkdir(parents=True)
        (folder / "rows.json").write_text("{}")


@pytest.mark.parametrize("prefix", ["dt=", ""])
@pytest.mark.parametrize(
    ("form", "depth", "lookback", "expected"),
    [("yyyyMMdd", 0, 2, 1), ("yyyyMMMdd", 1, 3, 4), ("yyyy-MM-dd", 2, 1, 10), ("yyyy-MMM-dd", 3, 2, 75)],
)
def test_folders_of_the_last_days_are_listed(
    form: str, depth: int, lookback: int, expected: int, prefix: str, tmp_path: Path
) -> None:
    fill(tmp_path, depth - 1, form, prefix)
    chooser = selector(tmp_path, form, depth, lookback, "2020-07-25")
    assert len(chooser.list_dated_folders()) == expected
    assert len(chooser.select(None, None).files) == (5 if depth == 0 else expected)


def test_days_after_the_current_one_are_left_out(tmp_path: Path) -> None:
    fill(tmp_path, 0, "yyyy-MM-dd", "")
    chosen = selector(tmp_path, "yyyy-MM-dd", 1, 1, "2020-07-23").list_dated_folders()
    assert sorted(path.rpartition("/")[2] for path in chosen) == ["2020-07-22", "2020-07-23"]


def test_the_current_day_is_that_of_the_clock_unless_it_is_given(tmp_path: Path) -> None:
    today = datetime.date.today()
    for day in (today, today - datetime.timedelta(days=3)):
        (tmp_path / day.isoformat()).mkdir()
    chooser = DatePartitionPathSelector(
        StreamerProperties(
            {
                "hoodie.streamer.source.dfs.root": str(tmp_path),
                "hoodie.deltastreamer.source.dfs.datepartitioned.selector.depth": "1",
            }
        )
    )
    assert chooser.list_dated_folders() == [f"{tmp_path}/{today.isoformat()}"]


@pytest.mark.parametrize("name", ["archive", "dt=2020-13-01", "a=b=2020-07-25", "2020-07-25x"])
def test_a_folder_that_is_no_date_is_refused(name: str, tmp_path: Path) -> None:
    fill(tmp_path, 0, "yyyy-MM-dd", "")
    (tmp_path / name).mkdir()
    with pytest.raises(HoodieReadFromSourceException, match=f"{name} is not named for a day as yyyy-MM-dd"):
        selector(tmp_path, "yyyy-MM-dd", 1, 1, "2020-07-25").select(None, None)


def test_hidden_names_are_passed_over_at_the_level_of_the_days(tmp_path: Path) -> None:
    fill(tmp_path, 0, "yyyy-MM-dd", "")
    (tmp_path / "_archive").mkdir()
    (tmp_path / "_SUCCESS").touch()
    assert len(selector(tmp_path, "yyyy-MM-dd", 1, 1, "2020-07-25").list_dated_folders()) == 2


def test_a_file_above_the_days_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, 1, "yyyy-MM-dd", "")
    (tmp_path / "rows.json").touch()
    with pytest.raises(HoodieReadFromSourceException, match=r"rows\.json is a file.*selector\.depth = 2"):
        selector(tmp_path, "yyyy-MM-dd", 2, 1, "2020-07-25").select(None, None)


def test_wrong_properties_are_refused(tmp_path: Path) -> None:
    for form, today in (("yyyy-QQ", "2020-07-25"), ("yyyy-MM-dd", "25.7.2020"), ("G", "2020-07-25")):
        with pytest.raises(HoodieConfigException, match="datepartitioned"):
            selector(tmp_path, form, 1, 1, today)


def test_folders_of_a_bucket_are_listed(s3_bucket: Bucket) -> None:
    dated = "hoodie.streamer.source.dfs.datepartitioned.selector."
    properties = {
        "hoodie.streamer.source.dfs.root": f"s3://{s3_bucket.name}/in",
        f"{dated}depth": 2,
        f"{dated}currentdate": "2020-07-25",
    }
    chooser = DatePartitionPathSelector(StreamerProperties.of(properties), s3_bucket.options())
    for day in DAYS:
        for shop in ("a", "b"):
            chooser.storage.replace(f"s3://{s3_bucket.name}/in/{shop}/dt={day.isoformat()}/rows.json", b"{}")
    assert len(chooser.select(None, None).files) == 6
