"""Properties of Amazon's services: who asks them, and where Glue is."""

from __future__ import annotations

from typing import Any

import attrs

from hoodie.common.config.property import Parser, PropertyGroup, property_field
from hoodie.common.util.uris import without_user

_TEXT: Parser[str | None] = Parser(lambda value: value or None, "text")
_URL: Parser[str | None] = Parser(lambda value: without_user(value) or None, "a URL")
_SESSION_NAME: Parser[str] = Parser(lambda value: value or "hoodie", "text")
_PREFIX = "hoodie.aws."


@attrs.frozen(kw_only=True, repr=False)
class HoodieAWSConfig(PropertyGroup):
    """The account that asks DynamoDB (locks) and Glue (catalog sync), and the place of Glue.

    Without these boto3 finds credentials and region by itself: environment, profile, role of the machine.

    Hudi: org.apache.hudi.config.HoodieAWSConfig.
    """

    access_key: str | None = property_field(_PREFIX + "access.key", _TEXT, None)
    """The access key id for DynamoDB and Glue, together with `hoodie.aws.secret.key`."""
    secret_key: str | None = property_field(_PREFIX + "secret.key", _TEXT, None)
    """The secret access key."""
    session_token: str | None = property_field(_PREFIX + "session.token", _TEXT, None)
    """The session token of temporary credentials."""
    role_arn: str | None = property_field(_PREFIX + "role.arn", _TEXT, None)
    """The role to assume for DynamoDB and Glue, with the credentials above or those that boto3 finds."""
    role_session_name: str = property_field(_PREFIX + "role.session.name", _SESSION_NAME, "hoodie")
    """The name of the session of that role."""
    role_external_id: str | None = property_field(_PREFIX + "role.external.id", _TEXT, None)
    """The external id that the role asks for."""
    glue_endpoint: str | None = property_field(_PREFIX + "glue.endpoint", _URL, None)
    """The URL of Glue, if it is not Amazon's of the region."""
    glue_region: str | None = property_field(_PREFIX + "glue.region", _TEXT, None)
    """Glue's region; default: the one that boto3 finds, such as that of the environment variable AWS_DEFAULT_REGION."""

    @property
    def credentials(self) -> dict[str, Any]:
        """The arguments of `aws_client` that say who asks."""
        return {
            "access_key": self.access_key,
            "secret_key": self.secret_key,
            "session_token": self.session_token,
            "role_arn": self.role_arn,
            "role_session_name": self.role_session_name,
            "role_external_id": self.role_external_id,
        }
