"""Properties of the validator of offsets."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import attrs

from hoodie.common.config.property import Parser, PropertyGroup, choice, property_field

_PREFIX: Final = "hoodie.precommit.validators."


class ValidationFailurePolicy(StrEnum):
    """The fate of a commit that a validator of offsets rejects.

    Hudi: org.apache.hudi.client.validator.ValidationFailurePolicy.
    """

    FAIL = "FAIL"
    WARN_LOG = "WARN_LOG"


def _percentage(value: str) -> float:
    number = float(value)
    if not 0 <= number <= 100:
        raise ValueError
    return number


@attrs.frozen(kw_only=True, repr=False)
class OffsetValidatorConfig(PropertyGroup):
    """The validator of offsets (``SparkKafkaOffsetValidator`` in ``hoodie.precommit.validators``)."""

    tolerance_percentage: float = property_field(
        f"{_PREFIX}streaming.offset.tolerance.percentage",
        Parser(_percentage, "a number from 0 to 100"),
        0.0,
        since="1.2.0",
    )
    """How many percent the rows of a commit may differ from the offsets that its position moved."""
    failure_policy: ValidationFailurePolicy = property_field(
        f"{_PREFIX}failure.policy", choice(ValidationFailurePolicy), ValidationFailurePolicy.FAIL, since="1.2.0"
    )
    """FAIL prevents the commit; WARN_LOG logs a warning, and commits."""
