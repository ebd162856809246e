"""Apache Kafka's own tool reads what our coordinator writes to `__consumer_offsets`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from bench.kafka import Unavailable, kafka_classpath
from tests.clients.ask.asker import Asker
from tests.clients.ask.group import join, leave, new_group, sync
from tests.clients.ask.group_offset import commit

from tailrace.testing import Broker

pytestmark = pytest.mark.slow


def test_kafka_s_tool_reads_our_groups(tmp_path: Path) -> None:
    try:
        classpath = kafka_classpath()
    except Unavailable as reason:
        pytest.skip(str(reason))
    options = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}
    with Broker(options, data=tmp_path) as broker:
        asker = Asker(broker.bootstrap_servers)
        topic = asker.topic("t")
        group = new_group(asker)
        member_id = join(asker, group, version=9)["member_id"]
        assert join(asker, group, member_id, version=9)["generation_id"] == 1
        assert sync(asker, group, member_id, 1)["assignment"] == b"all"
        member = {"member_id": member_id, "generation_id_or_member_epoch": 1}
        assert commit(asker, group, topic, offset=42, metadata="note", **member) == 0
        assert leave(asker, group, (member_id, None)) == [0, [0]]
        assert asker.fields("DeleteGroups", 1, groups_names=[group])["results"][0]["error_code"] == 0
    (segment,) = (tmp_path / "__consumer_offsets-0").glob("*.log")
    tool = classpath.command("org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(segment))
    text = subprocess.run(tool, capture_output=True, text=True, timeout=100, check=True).stdout
    payloads = [line for line in text.splitlines() if " payload: " in line]
    # The group, its generation, a commit, the generation without members, and the tombstones of commit and group.
    assert [line.split('"type":"')[1].split('"')[0] for line in payloads] == ["2", "2", "1", "2", "1", "2"]
    assert f'"memberId":"{member_id}"' in payloads[1]
    assert '"offset":42' in payloads[2]
    assert '"metadata":"note"' in payloads[2]
    assert payloads[3].count('"members":[]') == 1
