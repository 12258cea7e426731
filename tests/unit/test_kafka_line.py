"""A run tells whether its tests with Kafka ran, and continuous integration reads that."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.kafka_tests import kafka_line

CI_RUN = Path(__file__).parents[2] / ".ci/run"


def report(*marks: str, reason: str | None = None) -> SimpleNamespace:
    longrepr = None if reason is None else ("conftest.py", 1, f"Skipped: {reason}")
    return SimpleNamespace(keywords=dict.fromkeys(marks, 1), longrepr=longrepr)


def test_tests_that_passed_are_counted_and_reasons_of_skips_are_told() -> None:
    stats = {
        "passed": [report("kafka"), report("kafka", "slow"), report("spark")],
        "error": [report("kafka")],
        "skipped": [report("kafka", reason="no jars"), report("kafka", reason="no jars"), report(reason="no R")],
    }
    assert kafka_line(stats) == "Kafka: 2 passed, 1 error, 2 skipped; no jars"
    assert kafka_line({"skipped": [report("kafka", reason="no Java")]}) == "Kafka: 0 passed, 1 skipped; no Java"
    assert kafka_line({"passed": [report("spark")]}) is None


@pytest.mark.parametrize(
    ("lines", "is_fine", "told"),
    [
        (["12 passed in 3.00s", "Kafka: 10 passed, 1 skipped; no R"], True, ""),
        (["Kafka: 0 passed, 11 skipped; no jars of Kafka"], False, "Kafka: 0 passed, 11 skipped; no jars of Kafka"),
        (["12 passed in 3.00s"], False, "the part has no test with Kafka"),
    ],
)
def test_continuous_integration_fails_when_no_test_with_kafka_ran(
    tmp_path: Path, lines: list[str], is_fine: bool, told: str
) -> None:
    (function,) = re.findall(r"^kafka_ran\(\) \{.*?^\}$", CI_RUN.read_text(), re.DOTALL | re.MULTILINE)
    log = tmp_path / "log"
    log.write_text("".join(f"{line}\n" for line in lines))
    done = subprocess.run(["bash", "-uc", f'{function}\nkafka_ran "{log}"'], capture_output=True, text=True)
    assert (done.returncode == 0, done.stderr) == (is_fine, "")
    assert told in done.stdout
    assert bool(done.stdout) is not is_fine
