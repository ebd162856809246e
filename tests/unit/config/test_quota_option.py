"""The options of quotas."""

import pytest

from tailrace.config.broker import BrokerConfig
from tailrace.config.error import ConfigError
from tailrace.config.quota import parse_ip_override


def test_windows_that_have_an_effect_and_those_that_have_none() -> None:
    config = BrokerConfig({"quota.window.size.seconds": "5", "controller.quota.window.num": "3"})
    assert config.quota_window_size_seconds == 5
    assert config.controller_quota_window_num * config.controller_quota_window_size_seconds == 3
    assert config.notices == ()
    idle = BrokerConfig(
        {
            "quota.window.num": "2",
            "replication.quota.window.num": "2",
            "alter.log.dirs.replication.quota.window.size.seconds": "2",
        }
    )
    assert [notice.partition(" ")[0] for notice in idle.notices] == [
        "quota.window.num",
        "replication.quota.window.num",
        "alter.log.dirs.replication.quota.window.size.seconds",
    ]


@pytest.mark.parametrize(
    ("item", "parsed"),
    [
        ("10.0.0.1:5", ("10.0.0.1", 5)),
        ("::1:5", ("::1", 5)),
        ("[::1]:0", ("::1", 0)),
        ("10.0.0.1", None),
        ("10.0.0.1:", None),
        ("10.0.0.1:-1", None),
        ("10.0.0.1:99999999999", None),
        ("host:5", None),
    ],
)
def test_limits_of_single_addresses(item: str, parsed: tuple[str, int] | None) -> None:
    assert parse_ip_override(item) == parsed
    if parsed is not None:
        assert BrokerConfig({"max.connections.per.ip.overrides": item}).max_connections_per_ip_overrides == (item,)
        return
    with pytest.raises(ConfigError, match="must be a list of ADDRESS:COUNT"):
        BrokerConfig({"max.connections.per.ip.overrides": item})
