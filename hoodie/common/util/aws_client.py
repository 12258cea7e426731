"""Clients of Amazon's services, by boto3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

try:
    import boto3
    import botocore.config
    import botocore.credentials
    import botocore.exceptions
except ImportError:  # an extra: hoodie[dynamodb], hoodie[glue]
    boto3 = None


def aws_client(
    service: str,
    *,
    region: str | None,
    endpoint: str | None,
    access_key: str | None = None,
    secret_key: str | None = None,
    session_token: str | None = None,
    role_arn: str | None = None,
    role_session_name: str | None = None,
    role_external_id: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Any:
    """A client of a service.

    Args:
        service: boto3's name of the service.
        region: The region; None for the one that boto3 finds.
        endpoint: The URL of the service; None for Amazon's.
        access_key: The access key id; None for the credentials that boto3 finds.
        secret_key: The secret access key.
        session_token: The token of temporary credentials.
        role_arn: The role to assume; its credentials are renewed in time.
        role_session_name: The name of its session.
        role_external_id: The external id that it asks for.
        settings: Fields of botocore's ``Config``.

    Raises:
        botocore.exceptions.BotoCoreError: The region is missing, or no credentials are there to assume the role.
    """
    given = {
        "aws_access_key_id": access_key,
        "aws_secret_access_key": secret_key,
        "aws_session_token": session_token,
        "region_name": region,
    }
    given = {name: value for name, value in given.items() if value}
    config = botocore.config.Config(**settings) if settings else None
    if role_arn is None:
        return boto3.client(service, endpoint_url=endpoint, config=config, **given)
    session = boto3.Session(**given)
    credentials = session.get_credentials()
    if credentials is None:
        raise botocore.exceptions.NoCredentialsError
    asked = {"RoleSessionName": role_session_name, "ExternalId": role_external_id}
    fetcher = botocore.credentials.AssumeRoleCredentialFetcher(
        client_creator=session._session.create_client,
        source_credentials=credentials,
        role_arn=role_arn,
        extra_args={name: value for name, value in asked.items() if value},
    )
    # botocore has no public call for this; its own providers set the same field.
    session._session._credentials = botocore.credentials.DeferredRefreshableCredentials(
        refresh_using=fetcher.fetch_credentials, method="assume-role"
    )
    return session.client(service, endpoint_url=endpoint, config=config)
