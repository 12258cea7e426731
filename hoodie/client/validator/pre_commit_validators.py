"""Ask validators whether a commit may be completed.

Hudi: org.apache.hudi.client.utils.SparkValidatorUtils, org.apache.hudi.client.validator.SparkPreCommitValidator.
Differs: for both engines, and a validator may be a function.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hoodie.client.validator.pending_commit import PendingCommit
from hoodie.common.util.class_loading import create_object
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException, HoodieValidationException

__all__ = ["SQL_VALIDATORS", "HoodiePreCommitValidator", "PreCommitValidators", "Validator", "check_validators"]

logger = logging.getLogger(__name__)

Validator = Callable[[Any], bool | None]
"""Takes a `PendingCommit`; disagrees by False or by any error."""

_KEY = "hoodie.precommit.validators"
_PACKAGE = "org.apache.hudi.client.validator."
SQL_VALIDATORS = (
    "SqlQueryEqualityPreCommitValidator",
    "SqlQueryInequalityPreCommitValidator",
    "SqlQuerySingleResultPreCommitValidator",
)
"""Names of Hudi's validators, which run queries of Spark."""


class HoodiePreCommitValidator(ABC):
    """Looks at each commit of a client before it is completed; the base of validators that a property names.

    Args:
        config: The writer's configuration.

    Hudi: org.apache.hudi.client.validator.SparkPreCommitValidator.
    """

    def __init__(self, config: HoodieWriteConfig) -> None:
        self.config = config

    @abstractmethod
    def validate(self, commit: PendingCommit) -> bool | None:
        """Say whether the commit may be completed.

        Args:
            commit: What was written, and the table without and with it.

        Returns:
            False when not; True or None when it may.

        Raises:
            HoodieValidationException: It may not; any other error says so as well.
        """


def check_validators(validators: Sequence[Validator | HoodiePreCommitValidator]) -> None:
    """Refuse what cannot be asked.

    Args:
        validators: What a program gave.

    Raises:
        HoodieConfigException: It is no sequence, or something in it cannot be called.
    """
    if not isinstance(validators, Sequence) or isinstance(validators, str):
        raise HoodieConfigException(f"validators is {validators!r}: give a list of functions that take a PendingCommit")
    for validator in validators:
        if isinstance(validator, type) or not (callable(validator) or isinstance(validator, HoodiePreCommitValidator)):
            raise HoodieConfigException(
                f"validators has {validator!r}: give functions that take a hoodie.PendingCommit, or instances of "
                f"hoodie.HoodiePreCommitValidator. Classes are named by {_KEY}"
            )


class PreCommitValidators:
    """The validators of one client, those of its properties first.

    Args:
        config: The writer's configuration.
        validators: What the program gave.
        sql_validators: Classes of the names in `SQL_VALIDATORS`; none where the engine has no SQL.

    Raises:
        HoodieConfigException: Something is no validator, or lacks a property that it needs.
    """

    def __init__(
        self,
        config: HoodieWriteConfig,
        validators: Sequence[Validator | HoodiePreCommitValidator] = (),
        sql_validators: Mapping[str, type[HoodiePreCommitValidator]] | None = None,
    ) -> None:
        check_validators(validators)
        named = [_create(name, config, sql_validators or {}) for name in config.validator.validators]
        self._validators = [*named, *validators]

    def __bool__(self) -> bool:
        return bool(self._validators)

    def check(self, commit: PendingCommit) -> None:
        """Ask all of them.

        Args:
            commit: What is about to be completed.

        Raises:
            HoodieValidationException: One or more do not agree; all of them are named.
        """
        problems: list[str] = []
        errors: list[Exception] = []
        for validator in self._validators:
            name = _name_of(validator)
            ask = validator.validate if isinstance(validator, HoodiePreCommitValidator) else validator
            try:
                verdict = ask(commit)
            except Exception as error:
                problems.append(f"{name}: {error}" if str(error) else f"{name}: {type(error).__name__}")
                errors.append(error)
                continue
            if verdict is None or (isinstance(verdict, bool | np.bool_) and verdict):
                logger.info("validator %s agrees to commit %s", name, commit.instant_time)
            elif isinstance(verdict, bool | np.bool_):
                problems.append(f"{name} returned False")
            else:
                problems.append(
                    f"{name} returned {type(verdict).__name__}: let it return True, False or None, or raise an error"
                )
        if problems:
            raise HoodieValidationException(
                f"{commit.instant_time} must not be committed to {commit.base_path}, and was not: {'; '.join(problems)}"
            ) from (errors[0] if errors else None)


def _name_of(validator: object) -> str:
    if isinstance(validator, HoodiePreCommitValidator):
        return type(validator).__name__
    return str(getattr(validator, "__qualname__", None) or repr(validator))


def _create(
    name: str, config: HoodieWriteConfig, sql_validators: Mapping[str, type[HoodiePreCommitValidator]]
) -> HoodiePreCommitValidator:
    simple_name = name.removeprefix(_PACKAGE)
    if simple_name in SQL_VALIDATORS:
        if simple_name not in sql_validators:
            raise HoodieConfigException(
                f"{_KEY} = {name} runs queries of Spark, and this client has no Spark: use SparkRDDWriteClient, or "
                "give a function (validators=[...]) that reads commit.read_after()"
            )
        return sql_validators[simple_name](config)
    return create_object(name, _KEY, HoodiePreCommitValidator, config)
