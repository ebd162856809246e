"""Topics whose compression.type is another codec than the producer's."""

from __future__ import annotations

import gzip
from typing import Any

import zstandard
from tests.clients.ask.asker import Asker, creatable, question
from tests.clients.ask.fetch import fetch, summary
from tests.clients.raw import batch

PLAIN, GZIP, ZSTD = 0, 1, 4
VALUES = [b"a line and a line and a line " * 20, b"b"]
MAKERS: dict[int, Any] = {PLAIN: None, GZIP: gzip.compress, ZSTD: zstandard.compress}


@question
def stored_codec(asker: Asker) -> Any:
    """A batch of each of three codecs to a topic of each compression.type: what is stored."""
    found: dict[str, Any] = {}
    for kind in ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"):
        topic = asker.topic(compression_type=kind)
        for number, (codec, compress) in enumerate(MAKERS.items()):
            sequence = number * len(VALUES)
            asker.produce(topic, batch(VALUES, attributes=codec, compress=compress, producer=(7, 0, sequence)))
        found[kind] = asker.stored(topic)
    return found


@question
def kept_as_it_came(asker: Asker) -> Any:
    """A gzip batch to a gzip topic of another level: are the bytes behind the offset those that were sent?"""
    topic = asker.topic(compression_type="gzip", compression_gzip_level="1")
    sent = batch(VALUES, attributes=GZIP, compress=gzip.compress)
    asker.produce(topic, sent)
    stored = fetch(asker, topic, 0)["responses"][0]["partitions"][0]["records"] or b""
    return stored[16:] == sent[16:]


@question
def too_large_after(asker: Asker) -> Any:
    """A small zstd batch that is larger than max.message.bytes in the topic's codec: the answer."""
    topic = asker.topic(compression_type="uncompressed", max_message_bytes="2000")
    return asker.produce(topic, batch([bytes(3000)], attributes=ZSTD, compress=zstandard.compress))


@question
def zstd_for_old_consumers(asker: Asker) -> Any:
    """Fetch 9, which is older than zstd, and 10 from topics of two compression types, without and with a zstd batch."""
    found: dict[str, Any] = {}
    for kind in ("producer", "zstd"):
        topic = asker.topic(compression_type=kind)
        for state in ("empty", "filled"):
            if state == "filled":
                asker.produce(topic, batch(VALUES, attributes=ZSTD, compress=zstandard.compress))
            for version in (9, 10):
                found[f"{kind}, {state}, v{version}"] = summary(fetch(asker, topic, 0, version=version))
    return found


@question
def configs(asker: Asker) -> Any:
    """Topics with values of compression configs and of cleanup.policy: which are created."""
    cases = [
        ("compression.type", ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd", "none", ""]),
        ("compression.gzip.level", ["-1", "0", "1", "9", "10"]),
        ("compression.lz4.level", ["0", "1", "17", "18"]),
        ("compression.zstd.level", ["-131073", "-131072", "22", "23"]),
        ("cleanup.policy", ["", "delete", "compact,delete", "compact,"]),
        ("internal.segment.bytes", ["1000", "0"]),
    ]
    return {f"{name}={value}": _create(asker, name, value) for name, values in cases for value in values}


def _create(asker: Asker, name: str, value: str) -> Any:
    return asker.create(creatable("ask-config-values", configs={name: value}), validate_only=True)[0]["error_code"]
