"""Tailrace: a distributed commit log that speaks Kafka's wire protocol.

The clients are attributes of this package and are imported on first use, so that a broker starts without them.
"""

import logging
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from tailrace import aio as aio
    from tailrace.client.admin.acl import Acl as Acl
    from tailrace.client.admin.acl import AclFilter as AclFilter
    from tailrace.client.admin.core import NewTopic as NewTopic
    from tailrace.client.admin.core import ResourceType as ResourceType
    from tailrace.client.admin.quota import QuotaEntity as QuotaEntity
    from tailrace.client.admin.quota import QuotaName as QuotaName
    from tailrace.client.admin.scram import NewScramCredential as NewScramCredential
    from tailrace.client.admin.sync import Admin as Admin
    from tailrace.client.error import AuthenticationError as AuthenticationError
    from tailrace.client.error import ClientError as ClientError
    from tailrace.client.error import CommitFailed as CommitFailed
    from tailrace.client.error import OffsetMissing as OffsetMissing
    from tailrace.client.error import ProducerFenced as ProducerFenced
    from tailrace.client.error import RequestTimeout as RequestTimeout
    from tailrace.client.error import TransactionFailed as TransactionFailed
    from tailrace.client.fetch.consumer import Consumer as Consumer
    from tailrace.client.fetch.record import ConsumerRecord as ConsumerRecord
    from tailrace.client.fetch.table import read_table as read_table
    from tailrace.client.group.offset import GroupMetadata as GroupMetadata
    from tailrace.client.group.offset import OffsetAndMetadata as OffsetAndMetadata
    from tailrace.client.produce.delivery import RecordMetadata as RecordMetadata
    from tailrace.client.produce.producer import Producer as Producer
    from tailrace.client.produce.table import TableDelivery as TableDelivery
    from tailrace.client.topic_partition import TopicPartition as TopicPartition
    from tailrace.client.transaction.state import PreparedTransaction as PreparedTransaction
    from tailrace.config.error import ConfigError as ConfigError
    from tailrace.protocol.errors import ApiError as ApiError
    from tailrace.protocol.errors import ErrorCode as ErrorCode

_HOMES = {
    "Acl": "tailrace.client.admin.acl",
    "AclFilter": "tailrace.client.admin.acl",
    "Admin": "tailrace.client.admin.sync",
    "ApiError": "tailrace.protocol.errors",
    "AuthenticationError": "tailrace.client.error",
    "ClientError": "tailrace.client.error",
    "CommitFailed": "tailrace.client.error",
    "ConfigError": "tailrace.config.error",
    "Consumer": "tailrace.client.fetch.consumer",
    "ConsumerRecord": "tailrace.client.fetch.record",
    "ErrorCode": "tailrace.protocol.errors",
    "GroupMetadata": "tailrace.client.group.offset",
    "NewScramCredential": "tailrace.client.admin.scram",
    "NewTopic": "tailrace.client.admin.core",
    "OffsetAndMetadata": "tailrace.client.group.offset",
    "OffsetMissing": "tailrace.client.error",
    "PreparedTransaction": "tailrace.client.transaction.state",
    "Producer": "tailrace.client.produce.producer",
    "ProducerFenced": "tailrace.client.error",
    "QuotaEntity": "tailrace.client.admin.quota",
    "QuotaName": "tailrace.client.admin.quota",
    "RecordMetadata": "tailrace.client.produce.delivery",
    "RequestTimeout": "tailrace.client.error",
    "ResourceType": "tailrace.client.admin.core",
    "TableDelivery": "tailrace.client.produce.table",
    "TopicPartition": "tailrace.client.topic_partition",
    "TransactionFailed": "tailrace.client.error",
    "read_table": "tailrace.client.fetch.table",
}

_LOGGERS = (
    "tailrace",
    "tailrace.client.produce.delivery",
    "tailrace.client.produce.identity",
    "tailrace.client.fetch.fetcher",
    "tailrace.client.group.group",
    "tailrace.client.group.classic_protocol",
    "tailrace.client.group.consumer_protocol",
    "tailrace.client.fetch.locator",
    "tailrace.client.produce.sender",
    "tailrace.client.security.renewed_tls",
    "tailrace.client.transaction.scope",
    "tailrace.client.fetch.truncation",
    "tailrace.connect.board",
    "tailrace.audit",
    "tailrace.connect.http.app",
    "tailrace.connect.health",
    "tailrace.connect.offset",
    "tailrace.connect.store",
    "tailrace.connect.supervisor",
    "tailrace.registry.core.state",
    "tailrace.registry.election",
    "tailrace.registry.http.app",
    "tailrace.registry.service",
    "tailrace.registry.store",
    "tailrace.registry.writer",
    "tailrace.runtime",
    "tailrace.server",
    "tailrace.spark.batch_end",
    "tailrace.spark.connector.postgres_changes.stream_reader",
    "tailrace.spark.connector.redis.loss",
    "tailrace.spark.data_loss",
    "tailrace.spark.data_loss.cursor",
    "tailrace.spark.data_loss.slot",
    "tailrace.spark.discovery",
    "tailrace.spark.jdbc",
    "tailrace.spark.mirror.mirror",
    "tailrace.spark.mirror.source_reader",
    "tailrace.spark.mirror.sync_follower",
    "tailrace.spark.option",
    "tailrace.spark.pipeline",
    "tailrace.spark.postgres",
    "tailrace.spark.table",
    "tailrace.spark.webhook",
    "tailrace.storage.folder",
    "tailrace.storage.log_dir",
    "tailrace.storage.producer_replay",
    "tailrace.storage.recovery",
    "tailrace.storage.segment.swap",
    "tailrace.storage.transaction_lookup",
    "tailrace.testing",
    "tailrace.web.cluster_caller",
    "tailrace.web.entrance",
    "tailrace.zookeeper",
)

# Created before any module needs them: while pyspark creates a logger, all threads create loggers of its class, which
# write only warnings, as JSON to stderr. An embedded broker may import a module at just that moment.
for _name in _LOGGERS:
    logging.getLogger(_name)


def __getattr__(name: str) -> Any:
    """Import a public name on first use (PEP 562)."""
    import importlib

    if name == "aio":
        return importlib.import_module("tailrace.aio")
    if name not in _HOMES:
        raise AttributeError(f"module 'tailrace' has no attribute {name!r}")
    found = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, "aio"])
