"""Errors of AWS Glue, and what to do about them."""

from __future__ import annotations

from collections.abc import Mapping, Set
from contextlib import suppress
from typing import Any

from hoodie.exception import (
    CatalogChangeRefusedException,
    CatalogEntryChangedException,
    CatalogEntryExistsException,
    HoodieSyncException,
)

with suppress(ImportError):  # an extra: hoodie[glue]
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        EndpointConnectionError,
        HTTPClientError,
        NoCredentialsError,
        NoRegionError,
    )

NOT_THERE = "EntityNotFoundException"
THERE = "AlreadyExistsException"
_REFUSED = "InvalidInputException"
_CHANGED = frozenset({"ConcurrentModificationException", "VersionMismatchException"})
_DENIED = frozenset({"AccessDeniedException", "AccessDenied", "UnauthorizedException"})
_UNKNOWN_CALLER = frozenset(
    {
        "UnrecognizedClientException",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "IncompleteSignature",
        "ExpiredTokenException",
        "ExpiredToken",
        "MissingAuthenticationTokenException",
    }
)
_BUSY = frozenset(
    {
        "ThrottlingException",
        "Throttling",
        "TooManyRequestsException",
        "RequestLimitExceeded",
        "OperationTimeoutException",
        "InternalServiceException",
        "ServiceUnavailableException",
    }
)


def glue_failure(begin: str, error: BotoCoreError | ClientError | ValueError) -> HoodieSyncException:
    """The error to raise instead of one of boto3.

    Args:
        begin: The catalog, and what could not be done.
        error: The error of boto3.

    Returns:
        A `CatalogEntryExistsException` if the name is taken, a `CatalogEntryChangedException` if the thing is not there
        or was changed meanwhile, a `CatalogChangeRefusedException` if a change is refused, else a
        `HoodieSyncException`.
    """
    match error:
        case ClientError():
            detail = error.response.get("Error", {})
            code = error_code(detail)
            kind: type[HoodieSyncException] = HoodieSyncException
            if code == THERE:
                kind = CatalogEntryExistsException
            elif code == NOT_THERE or code in _CHANGED:
                kind = CatalogEntryChangedException
            elif code == _REFUSED and error.operation_name == "UpdateTable":
                kind = CatalogChangeRefusedException
            return kind(f"{begin}: {code}: {error_message(detail)}. {advice({code}, error.operation_name)}")
        case NoCredentialsError():
            what_to_do = (
                "Give hoodie.aws.access.key and hoodie.aws.secret.key, or what boto3 reads: AWS_PROFILE, "
                "AWS_ACCESS_KEY_ID, a role of the machine"
            )
        case NoRegionError():
            what_to_do = "Give hoodie.aws.glue.region, or set AWS_DEFAULT_REGION"
        case EndpointConnectionError() | HTTPClientError():
            what_to_do = "Check hoodie.aws.glue.region, hoodie.aws.glue.endpoint and the network, and sync again"
        case _:
            what_to_do = "Check the options hoodie.aws.* and hoodie.datasource.meta.sync.glue.*"
    return HoodieSyncException(f"{begin}: {str(error).rstrip('.')}. {what_to_do}.")


def advice(codes: Set[str], operation: str) -> str:
    """The sentence that says what to do.

    Args:
        codes: The codes of the errors.
        operation: The API's name of the call, such as ``BatchCreatePartition``; permissions have the same names.
    """
    service = "sts" if operation == "AssumeRole" else "glue"
    if codes & _DENIED:
        return (
            f"Allow {service}:{operation} to this user or role, for the catalog, the database and the table; where "
            "Lake Formation manages them, grant it there, too."
        )
    if codes & _UNKNOWN_CALLER:
        return (
            "Check the credentials: hoodie.aws.access.key and others, or those that boto3 finds; they may be expired."
        )
    if codes & _BUSY:
        return (
            "Sync again later, or with fewer threads (hoodie.datasource.meta.sync.glue.*_parallelism) if other "
            "programs use this account's Glue."
        )
    if "ResourceNumberLimitExceededException" in codes:
        return "Raise the quota of Glue in this account, or remove what is not needed (old table versions count)."
    if "GlueEncryptionException" in codes:
        return "The catalog is encrypted: allow this user or role to use its key in KMS."
    if NOT_THERE in codes:
        return "It was removed, or never created: sync again, or create the database."
    if codes & _CHANGED:
        return "Another process changes it at the same time: sync again."
    if THERE in codes:
        return "Sync again, or choose another name."
    return "Check the names and the options hoodie.datasource.meta.sync.glue.*, and sync again."


def error_code(detail: Mapping[str, Any]) -> str:
    """The code of an error of a call or of a partition.

    Args:
        detail: The answer of Glue.
    """
    return str(detail.get("ErrorCode") or detail.get("Code") or "an unknown error")


def error_message(detail: Mapping[str, Any]) -> str:
    """The message of an error of a call or of a partition, without the full stop.

    Args:
        detail: The answer of Glue.
    """
    return str(detail.get("ErrorMessage") or detail.get("Message") or "no message").rstrip(". ")
