"""Properties of the order in which a clustering puts rows."""

from __future__ import annotations

from enum import StrEnum

import attrs

from hoodie.common.config.property import PropertyGroup, choice, integer, property_field


class LayoutOptimizationStrategy(StrEnum):
    """The kind of an order of rows by several columns.

    Hudi: org.apache.hudi.config.HoodieClusteringConfig.LayoutOptimizationStrategy.
    """

    LINEAR = "LINEAR"
    ZORDER = "ZORDER"
    HILBERT = "HILBERT"


class SpatialCurveCompositionStrategyType(StrEnum):
    """The way from the values of a column to its numbers on a curve.

    Hudi: org.apache.hudi.config.HoodieClusteringConfig.SpatialCurveCompositionStrategyType.
    """

    DIRECT = "DIRECT"
    SAMPLE = "SAMPLE"


@attrs.frozen(kw_only=True, repr=False)
class HoodieLayoutOptimizeConfig(PropertyGroup):
    """The order of rows by the sort columns of a clustering.

    Hudi: the properties ``hoodie.layout.optimize.*`` of org.apache.hudi.config.HoodieClusteringConfig.
    """

    strategy: LayoutOptimizationStrategy = property_field(
        "hoodie.layout.optimize.strategy",
        choice(LayoutOptimizationStrategy, aliases={"Z-ORDER": LayoutOptimizationStrategy.ZORDER}),
        LayoutOptimizationStrategy.LINEAR,
    )
    """How a clustering orders rows by hoodie.clustering.plan.strategy.sort.columns. LINEAR: by the first column, then
    by the second, and so on; queries that filter the first column gain. ZORDER (or Z-ORDER) and HILBERT: along a curve
    on which rows that are near each other in all columns are near; queries that filter any of the columns gain.
    HILBERT keeps ranges of a file narrower, and takes more time."""
    curve_build_method: SpatialCurveCompositionStrategyType = property_field(
        "hoodie.layout.optimize.curve.build.method",
        choice(SpatialCurveCompositionStrategyType),
        SpatialCurveCompositionStrategyType.DIRECT,
    )
    """How ZORDER and HILBERT make numbers of values. DIRECT: by their bits, of texts the first 8 bytes. SAMPLE: by
    their rank among sampled values, which is better where values are spread unevenly, or texts begin alike."""
    curve_sample_size: int = property_field(
        "hoodie.layout.optimize.build.curve.sample.size", integer(minimum=2, maximum=1_000_000), 200_000
    )
    """The most values of a column that hoodie.layout.optimize.curve.build.method=SAMPLE compares others with."""
