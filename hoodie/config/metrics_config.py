"""Properties of metrics: which metrics of each call are reported, and where."""

from __future__ import annotations

import attrs

from hoodie.common.config.property import Parser, PropertyGroup, boolean, integer, property_field, text

REPORTER_TYPES = ("CONSOLE", "INMEMORY", "JSON_LINES", "PROMETHEUS", "PROMETHEUS_PUSHGATEWAY")

HUDI_REPORTER_TYPES = ("GRAPHITE", "JMX", "DATADOG", "CLOUDWATCH", "M3", "SLF4J", "PROMETHEUS_PUSHGATEWAY", "CUSTOM")
"""Those of Hudi, which a pasted configuration may name.

Hudi: org.apache.hudi.metrics.MetricsReporterType.
"""

_PREFIX = "hoodie.metrics."
_PORT: Parser[int] = integer(minimum=1, maximum=65535)
_LABELS_FORM = "name:value,name2:value2"


def parse_labels(value: str) -> dict[str, str]:
    """Parse labels: ``name:value`` pairs, separated by commas.

    Raises:
        ValueError: The text has another form.
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
    """Metrics of each call: which are reported, and where.

    Hudi: org.apache.hudi.config.metrics.HoodieMetricsConfig,
    org.apache.hudi.config.metrics.HoodieMetricsPrometheusConfig.
    """

    is_on: bool = property_field(_PREFIX + "on", boolean(), False)
    """Report the metrics of each call of a client, at its end."""
    reporter_type: str | None = property_field(_PREFIX + "reporter.type", text("a reporter"), None)
    """Where metrics go. CONSOLE prints them; JSON_LINES (hoodie only) appends a line to a file; PROMETHEUS serves them
    over HTTP; PROMETHEUS_PUSHGATEWAY pushes them; INMEMORY does nothing. With hoodie.metrics.on and another reporter of
    Hudi, or none (Hudi's default is GRAPHITE), a warning says that no metrics are reported."""
    prefix: str | None = property_field(_PREFIX + "reporter.metricsname.prefix", text(), None, since="0.11.0")
    """The prefix of all names, with dots as underscores; default: the table's name."""
    prometheus_port: int = property_field(_PREFIX + "prometheus.port", _PORT, 9090)
    """The port that PROMETHEUS serves on, at all addresses of the machine."""
    pushgateway_host: str = property_field(_PREFIX + "pushgateway.host", text("a host"), "localhost")
    """The host of the push gateway."""
    pushgateway_port: int = property_field(_PREFIX + "pushgateway.port", _PORT, 9091)
    """The port of the push gateway."""
    pushgateway_job_name: str = property_field(_PREFIX + "pushgateway.job.name", text("a name"), "hoodie")
    """The name of the job at the push gateway."""
    pushgateway_random_suffix: bool = property_field(_PREFIX + "pushgateway.random.job.name.suffix", boolean(), True)
    """Add a random number to the job's name, so that jobs with the same name do not overwrite each other."""
    pushgateway_delete_on_shutdown: bool = property_field(_PREFIX + "pushgateway.delete.on.shutdown", boolean(), True)
    """Delete the metrics from the push gateway when the client is closed."""
    pushgateway_labels: str | None = property_field(
        _PREFIX + "pushgateway.report.labels", text(f"labels as {_LABELS_FORM}", _check_labels), None, since="0.14.0"
    )
    """The labels of the metrics at the push gateway, as `name:value,name2:value2`."""
    json_path: str | None = property_field(_PREFIX + "json.path", text("a file"), None, is_ours=True)
    """The local file that JSON_LINES appends to."""

    @property
    def missing_reporter(self) -> str | None:
        """The reporter of Hudi that is asked for, and that hoodie does not have; None if there is no such."""
        kind = (self.reporter_type or HUDI_REPORTER_TYPES[0]).upper()
        return kind if self.is_on and kind in HUDI_REPORTER_TYPES and kind not in REPORTER_TYPES else None
