"""Properties of validators, which check a commit before it is completed."""

from __future__ import annotations

import attrs

from hoodie.common.config.property import Parser, PropertyGroup, column_names, property_field, text

_PREFIX = "hoodie.precommit.validators"
_CLASSES: Parser[tuple[str, ...]] = attrs.evolve(
    column_names(), allowed="names of classes separated by commas, each once"
)
_QUERIES = "Spark SQL queries, separated by semicolons"


@attrs.frozen(kw_only=True, repr=False)
class HoodiePreCommitValidatorConfig(PropertyGroup):
    """The checks that a commit must pass before it is completed.

    Hudi: org.apache.hudi.config.HoodiePreCommitValidatorConfig.
    """

    validators: tuple[str, ...] = property_field(_PREFIX, _CLASSES, ())
    """Classes that check each commit before it is completed: Hudi's `SqlQueryEqualityPreCommitValidator`,
    `SqlQueryInequalityPreCommitValidator` and `SqlQuerySingleResultPreCommitValidator` (Spark), by these names or
    Hudi's full ones, and your own subclasses of `HoodiePreCommitValidator` as package.module.Class. A client takes
    functions too: `validators=[...]`. If one rejects the commit, nothing is committed."""
    equality_sql_queries: str | None = property_field(_PREFIX + ".equality.sql.queries", text(_QUERIES), None)
    """For SqlQueryEqualityPreCommitValidator: queries that must return the same rows before and after the commit,
    separated by semicolons. `<TABLE_NAME>` stands for the partitions that the commit touches."""
    inequality_sql_queries: str | None = property_field(_PREFIX + ".inequality.sql.queries", text(_QUERIES), None)
    """For SqlQueryInequalityPreCommitValidator: queries that must return other rows after the commit than before."""
    single_value_sql_queries: str | None = property_field(
        _PREFIX + ".single.value.sql.queries",
        text("Spark SQL queries, each with # and its result, separated by semicolons"),
        None,
    )
    """For SqlQuerySingleResultPreCommitValidator: `query#result` pairs, separated by semicolons; each query must return
    that one value after the commit."""
