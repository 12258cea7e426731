"""Properties of metrics: who is sent the figures of each call."""

from __future__ import annotations

import attrs

from hoodie.common.config.property import Parser, PropertyGroup, boolean, integer, property_field, text

__all__ = ["REPORTER_TYPES", "HoodieMetricsConfig", "parse_labels"]

REPORTER_TYPES = ("CONSOLE", "INMEMORY", "JSON_LINES", "PROMETHEUS", "PROMETHEUS_PUSHGATEWAY")

_PREFIX = "hoodie.metrics."
_PORT: Parser[int] = integer(minimum=1, maximum=65535)
_LABELS_FORM = "name:value,name2:value2"


def parse_labels(value: str) -> dict[str, str]:
    """Read labels: names and values by a colon, separated by commas.

    Raises:
        ValueError: They have another form.
    """
    labels = {}
    for part in value.split(","):
        name, colon, content = (piece.strip() for piece in part.partition(":"))
        if not colon or not content or not name.isidentifier():
            raise ValueError
        labels[name] = content
    return labels


def _check_labels(value: str) -> None:
    parse_labels(value)


@attrs.frozen(kw_only=True, repr=False)
class HoodieMetricsConfig(PropertyGroup):
    """What is reported of each call, and to whom.

    Hudi: org.apache.hudi.config.metrics.HoodieMetricsConfig,
    org.apache.hudi.config.metrics.HoodieMetricsPrometheusConfig.
    """

    is_on: bool = property_field(
        _PREFIX + "on", boolean(), False, "Report the figures of each call of a client, once it is over."
    )
    reporter_type: str | None = property_field(
        _PREFIX + "reporter.type",
        text("a reporter"),
        None,
        "Where figures go: CONSOLE prints them; JSON_LINES (ours) appends a line to a file; PROMETHEUS "
        "serves them over HTTP; PROMETHEUS_PUSHGATEWAY pushes them; INMEMORY does nothing. Needed where "
        "hoodie.metrics.on is true, as Hudi's default, GRAPHITE, is not supported.",
    )
    prefix: str | None = property_field(
        _PREFIX + "reporter.metricsname.prefix",
        text(),
        None,
        "What all names begin with, dots as underscores; the table's name when it is not given.",
        since="0.11.0",
    )
    prometheus_port: int = property_field(
        _PREFIX + "prometheus.port", _PORT, 9090, "Port that PROMETHEUS serves on, of all addresses of the machine."
    )
    pushgateway_host: str = property_field(
        _PREFIX + "pushgateway.host", text("a host"), "localhost", "Host of the push gateway."
    )
    pushgateway_port: int = property_field(_PREFIX + "pushgateway.port", _PORT, 9091, "Port of the push gateway.")
    pushgateway_job_name: str = property_field(
        _PREFIX + "pushgateway.job.name",
        text("a name"),
        "hoodie",
        "Name of the job at the push gateway.",
    )
    pushgateway_random_suffix: bool = property_field(
        _PREFIX + "pushgateway.random.job.name.suffix",
        boolean(),
        True,
        "Add a random number to the job's name, so that jobs of one name do not overwrite each other.",
    )
    pushgateway_delete_on_shutdown: bool = property_field(
        _PREFIX + "pushgateway.delete.on.shutdown",
        boolean(),
        True,
        "Delete the figures from the push gateway when the client is closed.",
    )
    pushgateway_labels: str | None = property_field(
        _PREFIX + "pushgateway.report.labels",
        text(f"labels as {_LABELS_FORM}", _check_labels),
        None,
        f"Labels of the figures at the push gateway, as `{_LABELS_FORM}`.",
        since="0.14.0",
    )
    json_path: str | None = property_field(
        _PREFIX + "json.path",
        text("a file"),
        None,
        "The file of this machine that JSON_LINES appends to.",
        is_ours=True,
    )
