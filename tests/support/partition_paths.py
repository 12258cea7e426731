"""Partition paths, and what Hudi's extractors make of them: `tests.interop.test_partition_values` asks real ones."""

from __future__ import annotations

from collections.abc import Mapping

NONE = "NonPartitionedExtractor"
HIVE = "HiveStylePartitionValueExtractor"
SINGLE = "SinglePartPartitionValueExtractor"
MULTI = "MultiPartKeysValueExtractor"
DAY = "SlashEncodedDayPartitionValueExtractor"
HOUR = "SlashEncodedHourPartitionValueExtractor"
EXTRACTORS = (NONE, HIVE, SINGLE, MULTI, DAY, HOUR)
NULL = "__HIVE_DEFAULT_PARTITION__"

VALUES: Mapping[str, Mapping[str, list[str]]] = {
    "": {SINGLE: [""], MULTI: []},
    "emea": {SINGLE: ["emea"], MULTI: ["emea"]},
    "region=emea": {HIVE: ["emea"], SINGLE: ["region=emea"], MULTI: ["emea"]},
    "region=a=b": {HIVE: ["a=b"], SINGLE: ["region=a=b"], MULTI: ["a=b"]},
    "region=": {HIVE: [""], SINGLE: ["region="], MULTI: [""]},
    "region==": {HIVE: ["="], SINGLE: ["region=="], MULTI: ["="]},
    "=emea": {HIVE: ["emea"], SINGLE: ["=emea"], MULTI: ["emea"]},
    NULL: {SINGLE: [NULL], MULTI: [NULL]},
    f"region={NULL}": {HIVE: [NULL], SINGLE: [f"region={NULL}"], MULTI: [NULL]},
    "day=2026%2F11%2F14": {HIVE: ["2026%2F11%2F14"], SINGLE: ["day=2026%2F11%2F14"], MULTI: ["2026%2F11%2F14"]},
    "region=emea/day=7": {SINGLE: ["region=emea-day=7"], MULTI: ["emea", "7"]},
    "emea/day=7/": {HIVE: ["7/"], SINGLE: ["emea-day=7-"], MULTI: ["emea", "7"]},
    "a//b": {SINGLE: ["a--b"], MULTI: ["a", "", "b"]},
    "/": {SINGLE: ["-"], MULTI: []},
    "naïve 'x' \"y\"": {SINGLE: ["naïve 'x' \"y\""], MULTI: ["naïve 'x' \"y\""]},
    "2026/11/14": {SINGLE: ["2026-11-14"], MULTI: ["2026", "11", "14"], DAY: ["2026-11-14"]},
    "2026/1/4": {SINGLE: ["2026-1-4"], MULTI: ["2026", "1", "4"], DAY: ["2026-01-04"]},
    "day=2026/11/14": {
        HIVE: ["2026/11/14"], SINGLE: ["day=2026-11-14"], MULTI: ["2026", "11", "14"], DAY: ["2026-11-14"]
    },
    "y=2026/m=+1/d=04": {
        SINGLE: ["y=2026-m=+1-d=04"], MULTI: ["2026", "+1", "04"], DAY: ["2026-01-04"]
    },
    "y=2026=x/11/14": {
        HIVE: ["2026=x/11/14"], SINGLE: ["y=2026=x-11-14"], MULTI: ["2026=x", "11", "14"], DAY: ["2026-11-14"]
    },
    "999/12/31": {SINGLE: ["999-12-31"], MULTI: ["999", "12", "31"], DAY: ["0999-12-31"]},
    "٢٠٢٦/11/14": {SINGLE: ["٢٠٢٦-11-14"], MULTI: ["٢٠٢٦", "11", "14"], DAY: ["2026-11-14"]},
    "2024/02/29": {SINGLE: ["2024-02-29"], MULTI: ["2024", "02", "29"], DAY: ["2024-02-29"]},
    "2023/02/29": {SINGLE: ["2023-02-29"], MULTI: ["2023", "02", "29"]},
    "2026/11/xx": {SINGLE: ["2026-11-xx"], MULTI: ["2026", "11", "xx"]},
    "2026/11/ 4": {SINGLE: ["2026-11- 4"], MULTI: ["2026", "11", " 4"]},
    "2_026/11/4": {SINGLE: ["2_026-11-4"], MULTI: ["2_026", "11", "4"]},
    "2026/11": {SINGLE: ["2026-11"], MULTI: ["2026", "11"]},
    "2026/11/14/": {SINGLE: ["2026-11-14-"], MULTI: ["2026", "11", "14"], DAY: ["2026-11-14"]},
    "2026/11/14/07": {SINGLE: ["2026-11-14-07"], MULTI: ["2026", "11", "14", "07"], HOUR: ["2026-11-14-07"]},
    "y=2026/m=1/d=4/h=7": {
        SINGLE: ["y=2026-m=1-d=4-h=7"], MULTI: ["2026", "1", "4", "7"],
        HOUR: ["2026-01-04-07"],
    },
    "2026/11/14/24": {SINGLE: ["2026-11-14-24"], MULTI: ["2026", "11", "14", "24"]},
}  # fmt: skip
"""Path -> extractor -> values. An extractor that is not named refuses the path; `NONE` takes all and gives none."""
