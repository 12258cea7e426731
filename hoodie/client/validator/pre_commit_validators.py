"""Ask validators whether a commit may be completed.

Hudi: org.apache.hudi.client.utils.SparkValidatorUtils, org.apache.hudi.client.validator.SparkPreCommitValidator.
Differs: works on both engines, and a validator may be a plain function.
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

logger = logging.getLogger(__name__)

Validator = Callable[[Any], bool | None]
"""Takes a `PendingCommit`; rejects it by returning False or by raising any error."""

_KEY = "hoodie.precommit.validators"
_PACKAGE = "org.apache.hudi.client.validator."
SQL_VALIDATORS = (
    "SqlQueryEqualityPreCommitValidator",
    "SqlQueryInequalityPreCommitValidator",
    "SqlQuerySingleResultPreCommitValidator",
)
"""Names of Hudi's validators that run Spark SQL queries."""


class HoodiePreCommitValidator(ABC):
    """Checks each commit of a client before it is completed; the base class of validators that a property names.

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
            commit: The outcome of the write, and the table without and with it.

        Returns:
            False to reject the commit; True or None to accept it.

        Raises:
            HoodieValidationException: The commit is rejected; any other error rejects it as well.
        """


def check_validators(validators: Sequence[Validator | HoodiePreCommitValidator]) -> None:
    """Refuse anything that is not a validator.

    Args:
        validators: The caller's argument.

    Raises:
        HoodieConfigException: It is not a sequence, or an item of it cannot be called.
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
    """The validators of one client; those that properties name come first.

    Args:
        config: The writer's configuration.
        validators: The caller's argument.
        sql_validators: The classes for the names in `SQL_VALIDATORS`; empty where the engine has no SQL.

    Raises:
        HoodieConfigException: An item is not a validator, or a validator lacks a property that it needs.
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
        """Ask all validators.

        Args:
            commit: The commit that is about to be completed.

        Raises:
            HoodieValidationException: One or more validators reject the commit; the message names all of them.
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
                f"validators rejected {commit.instant_time} of {commit.base_path}, which was not committed: "
                + "; ".join(problems)
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
                f"{_KEY} = {name} runs Spark SQL queries, and this client has no Spark: use SparkRDDWriteClient, or "
                "give a function (validators=[...]) that reads commit.read_after()"
            )
        return sql_validators[simple_name](config)
    return create_object(name, _KEY, HoodiePreCommitValidator, config)
