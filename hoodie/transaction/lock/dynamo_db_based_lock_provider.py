"""A lock in an Amazon DynamoDB table.

Hudi: org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from typing import Any

from hoodie.common.config.property import read_group
from hoodie.common.util.aws_client import aws_client
from hoodie.config.aws_config import HoodieAWSConfig
from hoodie.exception import HoodieException, HoodieLockException
from hoodie.transaction.lock.lock_provider import LeaseLockProvider, LockConfiguration

try:
    import boto3
    import botocore.exceptions
except ImportError:  # an extra: hoodie[dynamodb]
    boto3 = None

logger = logging.getLogger(__name__)

_KEY = "key"
_VERSION = "recordVersionNumber"
_OWNER = "ownerName"
_LEASE = "leaseDuration"
_RELEASED = "isReleased"


class DynamoDBBasedLockProvider(LeaseLockProvider):
    """Holds the lock as one item of a DynamoDB table, in the format of Amazon's Java lock client, which Hudi uses.

    Clocks are not compared. A waiting writer checks whether the item's version number stays the same for as long as the
    lease in the item. So the lock of a dead writer is taken one lease after another writer first saw it. Credentials
    come from boto3, or from ``hoodie.aws.access.key`` and the like.

    Hudi: org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider.
    """

    def __init__(self, configuration: LockConfiguration) -> None:
        super().__init__(configuration)
        self._needs(boto3, "boto3", extra="dynamodb")
        options = configuration.options
        self._table = options.dynamodb_table
        self._partition_key = options.dynamodb_partition_key or configuration.table_name
        self._version = ""
        self._seen: tuple[str, int] | None = None
        account = read_group(HoodieAWSConfig, configuration.properties, [])
        self._client: Any = aws_client(
            "dynamodb",
            region=options.dynamodb_region,
            endpoint=options.dynamodb_endpoint_url,
            **account.credentials,
        )
        self._has_table = False

    @property
    def name(self) -> str:
        """See `LockProvider.name`."""
        return f"the lock {self._partition_key} in the DynamoDB table {self._table}"

    @property
    def lease_ms(self) -> int:
        """See `LeaseLockProvider.lease_ms`."""
        return max(self.configuration.options.wait_time_ms, 1)

    @property
    def renew_interval_ms(self) -> int:
        """See `LeaseLockProvider.renew_interval_ms`."""
        return max(self.lease_ms // 3, 1)

    def acquire_once(self) -> bool:
        """See `LeaseLockProvider.acquire_once`."""
        self._make_table()
        item = self._read()
        if item is None or _RELEASED in item:
            condition = f"attribute_not_exists(#{_KEY}) OR (attribute_exists(#{_KEY}) AND #{_RELEASED} = :released)"
            return self._put(condition, [_KEY, _RELEASED], {":released": {"S": "1"}})
        version = _text(item, _VERSION)
        now_ms = self.clock.monotonic_ms()
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, now_ms)
            return False
        if now_ms - self._seen[1] < int(_text(item, _LEASE) or self.lease_ms):
            return False
        logger.warning("breaking %s: %s let its lease end", self.name, _text(item, _OWNER))
        return self._put(f"#{_VERSION} = :old", [_VERSION], {":old": {"S": version}})

    def renew_once(self) -> bool:
        """See `LeaseLockProvider.renew_once`."""
        return self._put(f"#{_VERSION} = :old", [_VERSION], {":old": {"S": self._version}})

    def release_once(self) -> None:
        """See `LeaseLockProvider.release_once`."""
        version = self._version

        def delete() -> None:
            self._client.delete_item(
                TableName=self._table,
                Key={_KEY: {"S": self._partition_key}},
                ConditionExpression=f"#{_VERSION} = :old",
                ExpressionAttributeNames={f"#{_VERSION}": _VERSION},
                ExpressionAttributeValues={":old": {"S": version}},
            )

        if not self._conditionally("Giving back", delete):
            logger.warning("%s was taken by another writer before it was released", self.name)

    def read_ownership(self) -> bool:
        """See `LeaseLockProvider.read_ownership`."""
        item = self._read()
        return item is not None and _RELEASED not in item and _text(item, _VERSION) == self._version

    def owner_information(self) -> str:
        """See `LockProvider.owner_information`."""
        try:
            item = self._read()
        except HoodieException as error:
            return f"unknown ({error})"
        return "nobody" if item is None or _RELEASED in item else _text(item, _OWNER)

    def way_out(self) -> str:
        """See `LockProvider.way_out`."""
        return "The lock of a dead writer is broken if it was not renewed for the time of its lease."

    def close(self) -> None:
        """See `LockProvider.close`."""
        super().close()
        self._client.close()

    def _read(self) -> dict[str, dict[str, str]] | None:
        key = {_KEY: {"S": self._partition_key}}
        answer = self._call(
            "Reading", lambda: self._client.get_item(TableName=self._table, Key=key, ConsistentRead=True)
        )
        item: dict[str, dict[str, str]] | None = answer.get("Item")
        return item

    def _put(self, condition: str, names: list[str], values: dict[str, Any]) -> bool:
        version = str(uuid.uuid4())
        item = {
            _KEY: {"S": self._partition_key},
            _OWNER: {"S": self.owner_text()},
            _LEASE: {"S": str(self.lease_ms)},
            _VERSION: {"S": version},
        }
        used = {name: value for name, value in values.items() if name in condition}
        done = self._conditionally(
            "Writing",
            lambda: self._client.put_item(
                TableName=self._table,
                Item=item,
                ConditionExpression=condition,
                ExpressionAttributeNames={f"#{name}": name for name in names},
                ExpressionAttributeValues=used,
            ),
        )
        if not done:
            # boto3 repeats calls without a response: then the condition meets the item that the first call wrote.
            found = self._read()
            done = found is not None and _text(found, _VERSION) == version
        if done:
            self._version, self._seen = version, None
        return done

    def _conditionally(self, action: str, call: Callable[[], Any]) -> bool:
        """Make a conditional call; whether its condition held."""

        def holds() -> bool:
            try:
                call()
            except self._client.exceptions.ConditionalCheckFailedException:
                return False
            return True

        return bool(self._call(action, holds))

    def _call(self, action: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError) as error:
            raise self._failure(action, error) from error

    def _failure(self, action: str, error: Exception) -> HoodieLockException:
        return HoodieLockException(
            f"{action} {self.name} failed: {error}. Check the credentials and their permissions, and "
            "hoodie.write.lock.dynamodb.region"
        )

    def _make_table(self) -> None:
        if self._has_table:
            return
        options = self.configuration.options
        try:
            self._client.describe_table(TableName=self._table)
        except self._client.exceptions.ResourceNotFoundException:
            self._call("Making the table of", self._create_table)
        except (botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError) as error:
            raise self._failure("Looking up the table of", error) from error
        attempts = max(options.dynamodb_table_creation_timeout_ms // 1000, 1)
        waiter = self._client.get_waiter("table_exists")
        self._call(
            "Waiting for the table of",
            lambda: waiter.wait(TableName=self._table, WaiterConfig={"Delay": 1, "MaxAttempts": attempts}),
        )
        self._has_table = True

    def _create_table(self) -> None:
        options = self.configuration.options
        capacity = {}
        if options.dynamodb_billing_mode == "PROVISIONED":
            units = {"ReadCapacityUnits": options.dynamodb_read_capacity,
                     "WriteCapacityUnits": options.dynamodb_write_capacity}  # fmt: skip
            capacity["ProvisionedThroughput"] = units
        try:
            self._client.create_table(
                TableName=self._table,
                KeySchema=[{"AttributeName": _KEY, "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": _KEY, "AttributeType": "S"}],
                BillingMode=str(options.dynamodb_billing_mode),
                **capacity,
            )
        except self._client.exceptions.ResourceInUseException:
            logger.debug("another writer creates the DynamoDB table %s", self._table)


def _text(item: dict[str, dict[str, str]], name: str) -> str:
    return item.get(name, {}).get("S", "")
