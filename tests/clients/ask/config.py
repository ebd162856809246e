"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and what the cluster says of itself."""

from __future__ import annotations

from typing import Any

from tests.clients.ask.asker import Asker, question
from tests.eventual import eventually

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def _describe(asker: Asker, kind: int, name: str, keys: list[str] | None = None, synonyms: bool = False) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    fields = {"resources": [resource], "include_synonyms": synonyms, "include_documentation": False}
    return asker.fields("DescribeConfigs", 3, **fields)["results"][0]


def _values(described: dict[str, Any]) -> Any:
    return {
        config["name"]: [config["value"], config["config_source"], config["read_only"], config["config_type"]]
        for config in described["configs"]
    }


def _change(
    asker: Asker, kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> Any:
    configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    answer = asker.fields("IncrementalAlterConfigs", 0, resources=[resource], validate_only=validate_only)
    return answer["responses"][0]["error_code"]


@question
def topic_defaults(asker: Asker) -> Any:
    """DescribeConfigs v3 of a topic with one config set: name to [value, source, read only, type]."""
    return _values(_describe(asker, TOPIC, asker.topic(retention_ms="1000")))


@question
def synonyms(asker: Asker) -> Any:
    """The synonyms of retention.ms (set) and cleanup.policy (not set), as [name, value, source]."""
    described = _describe(asker, TOPIC, asker.topic(retention_ms="1000"), ["retention.ms", "cleanup.policy"], True)
    return {
        config["name"]: [[s["name"], s["value"], s["source"]] for s in config["synonyms"]]
        for config in described["configs"]
    }


@question
def synonyms_not_set(asker: Asker) -> Any:
    """The synonyms of configs that are not set, as [name, value, source], and the error message of a success."""
    keys = [
        "retention.ms",
        "segment.ms",
        "segment.jitter.ms",
        "flush.ms",
        "min.insync.replicas",
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        "compression.type",
        "internal.segment.bytes",
    ]
    described = _describe(asker, TOPIC, asker.topic(), keys, True)
    found = {
        config["name"]: [[s["name"], s["value"], s["source"]] for s in config["synonyms"]]
        for config in described["configs"]
    }
    return {"message": described["error_message"], **dict(sorted(found.items()))}


@question
def minimum_in_sync(asker: Asker) -> Any:
    """IncrementalAlterConfigs v0 of min.insync.replicas for one broker and for all of them: the codes."""
    name = "min.insync.replicas"
    return {
        "set for a broker": _change(asker, BROKER, "1", (name, SET, "1")),
        "remove for a broker": _change(asker, BROKER, "1", (name, DELETE, None)),
        "remove for all": _change(asker, BROKER, "", (name, DELETE, None)),
        "set for all": _change(asker, BROKER, "", (name, SET, "1")),
        "default": _values(_describe(asker, BROKER, "", [name])),
    }


@question
def describe_unknown(asker: Asker) -> Any:
    """DescribeConfigs v3 of things that are not there, as [error, has configs]."""
    topic = asker.topic()
    answers = {
        "unknown topic": _describe(asker, TOPIC, "no-such-topic"),
        "bad name": _describe(asker, TOPIC, ".."),
        "empty name": _describe(asker, TOPIC, ""),
        "unknown key": _describe(asker, TOPIC, topic, ["no.such.config"]),
        "no keys": _describe(asker, TOPIC, topic, []),
        "unknown broker": _describe(asker, BROKER, "77"),
        "bad broker": _describe(asker, BROKER, "abc"),
        "type 99": _describe(asker, 99, "x"),
    }
    return {label: [found["error_code"], bool(found["configs"])] for label, found in answers.items()}


@question
def describe_brokers(asker: Asker) -> Any:
    """DescribeConfigs v3 of broker 1 and of the default broker: some values, as [value, source, read only, type]."""
    keys = ["log.retention.hours", "log.segment.bytes", "message.max.bytes", "log.roll.ms", "compression.type"]
    return {
        "1": _values(_describe(asker, BROKER, "1", keys)),
        "default": _values(_describe(asker, BROKER, "", keys)),
    }


@question
def incremental(asker: Asker) -> Any:
    """IncrementalAlterConfigs v0 on a topic, in this order: the codes."""
    topic = asker.topic()
    steps = {
        "set": _change(asker, TOPIC, topic, ("retention.ms", SET, "1234")),
        "set unknown": _change(asker, TOPIC, topic, ("no.such.config", SET, "1")),
        "set bad value": _change(asker, TOPIC, topic, ("retention.ms", SET, "abc")),
        "set null": _change(asker, TOPIC, topic, ("retention.ms", SET, None)),
        "append to a number": _change(asker, TOPIC, topic, ("retention.ms", APPEND, "1")),
        "append": _change(asker, TOPIC, topic, ("cleanup.policy", APPEND, "compact")),
        "append again": _change(asker, TOPIC, topic, ("cleanup.policy", APPEND, "compact")),
        "subtract": _change(asker, TOPIC, topic, ("cleanup.policy", SUBTRACT, "delete")),
        "same key twice": _change(asker, TOPIC, topic, ("retention.ms", SET, "1"), ("retention.ms", DELETE, None)),
        "delete what is not set": _change(asker, TOPIC, topic, ("segment.ms", DELETE, None)),
        "operation 9": _change(asker, TOPIC, topic, ("segment.ms", 9, "1")),
        "no changes": _change(asker, TOPIC, topic),
        "validate only": _change(asker, TOPIC, topic, ("retention.ms", SET, "9"), validate_only=True),
        "unknown topic": _change(asker, TOPIC, "no-such-topic", ("retention.ms", SET, "1")),
        "unknown broker": _change(asker, BROKER, "77", ("log.retention.ms", SET, "1")),
        "read-only broker config": _change(asker, BROKER, "1", ("node.id", SET, "5")),
        "unknown type": _change(asker, 99, "x", ("retention.ms", SET, "1")),
        "set another": _change(asker, TOPIC, topic, ("segment.ms", SET, "7000")),
    }
    return steps | {"then": _settled(asker, topic, "segment.ms", "7000")}


def _settled(asker: Asker, topic: str, name: str, value: str) -> Any:
    """Three configs of a topic, once one of them is as the last change must have left it."""
    keys = ["retention.ms", "segment.ms", "cleanup.policy"]
    return eventually(lambda: _values(_describe(asker, TOPIC, topic, keys)), lambda values: values[name][0] == value)


def _replace(asker: Asker, topic: str, **configs: str | None) -> Any:
    pairs = [{"name": name.replace("_", "."), "value": value} for name, value in configs.items()]
    resource = {"resource_type": TOPIC, "resource_name": topic, "configs": pairs}
    found = asker.fields("AlterConfigs", 1, resources=[resource], validate_only=False)["responses"][0]
    return found["error_code"]


@question
def replace(asker: Asker) -> Any:
    """AlterConfigs v1 replaces all: set two, then set one; bad values; unknown topic."""
    topic = asker.topic()
    steps: dict[str, Any] = {"two": _replace(asker, topic, retention_ms="1000", segment_ms="2000")}
    steps["unknown config"] = _replace(asker, topic, no_such_config="1")
    steps["bad value"] = _replace(asker, topic, retention_ms="abc")
    steps["null value"] = _replace(asker, topic, retention_ms=None)
    steps["unknown topic"] = _replace(asker, "no-such-topic", retention_ms="1")
    steps["before"] = _settled(asker, topic, "segment.ms", "2000")
    steps["one"] = _replace(asker, topic, segment_ms="3000")
    return steps | {"then": _settled(asker, topic, "segment.ms", "3000")}


@question
def describe_cluster(asker: Asker) -> Any:
    """DescribeCluster v0: the code, number of brokers, is there a controller and a cluster id."""
    answer = asker.fields("DescribeCluster", 0, include_cluster_authorized_operations=False)
    return [answer["error_code"], len(answer["brokers"]), answer["controller_id"], bool(answer["cluster_id"])]


@question
def describe_log_dirs(asker: Asker) -> Any:
    """DescribeLogDirs v1 for an unknown topic: [error, number of topics] of each folder."""
    answer = asker.fields("DescribeLogDirs", 1, topics=[{"topic": "no-such-topic", "partitions": [0]}])
    return [[found["error_code"], len(found["topics"])] for found in answer["results"]]


@question
def list_config_resources(asker: Asker) -> Any:
    """ListConfigResources v1 for topics, brokers and type 99: the code, and is the new topic there?"""
    topic = asker.topic()
    answers: dict[str, Any] = {}
    for label, kinds in (("topics", [TOPIC]), ("brokers", [BROKER]), ("all", []), ("type 99", [99])):
        answer = asker.ask("ListConfigResources", 1, resource_types=kinds)
        if isinstance(answer, str):
            answers[label] = answer
            continue
        found = [[entry["resource_type"], entry["resource_name"]] for entry in answer["config_resources"]]
        # Other questions give groups a config, before this one or behind it.
        kinds_found = sorted({kind for kind, _ in found} - {GROUP})
        answers[label] = [answer["error_code"], [TOPIC, topic] in found, kinds_found]
    return answers


@question
def versions(asker: Asker) -> Any:
    """ApiVersions v4: the table of versions and the features."""
    answer = asker.fields("ApiVersions", 4, client_software_name="ask", client_software_version="1")
    return {
        "apis": {str(api["api_key"]): [api["min_version"], api["max_version"]] for api in answer["api_keys"]},
        "supported": {f["name"]: [f["min_version"], f["max_version"]] for f in answer["supported_features"]},
        "finalized": {
            f["name"]: [f["min_version_level"], f["max_version_level"]] for f in answer["finalized_features"]
        },
        "has_epoch": answer["finalized_features_epoch"] >= 0,
        "zk_migration_ready": answer["zk_migration_ready"],
    }


@question
def features_in_v3(asker: Asker) -> Any:
    """ApiVersions v3: the supported features (those with a minimum of 0 are left out there)."""
    answer = asker.fields("ApiVersions", 3, client_software_name="ask", client_software_version="1")
    return {f["name"]: [f["min_version"], f["max_version"]] for f in answer["supported_features"]}
