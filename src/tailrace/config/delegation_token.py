"""Broker options of delegation tokens: the shared secret, and how long tokens live."""

from tailrace.config.check import at_least
from tailrace.config.declaration import long, password
from tailrace.config.option import Importance
from tailrace.config.unit import DAY_MS, HOUR_MS


class DelegationTokenOptions:
    """The options of delegation tokens."""

    delegation_token_secret_key = password(
        "delegation.token.secret.key",
        "Secret from which brokers compute the HMACs of delegation tokens; all brokers need the same. Without it, or "
        "if it is empty, there are no delegation tokens. With another secret, earlier tokens are not valid any more.",
        importance=Importance.MEDIUM,
    )
    delegation_token_max_lifetime_ms = long(
        "delegation.token.max.lifetime.ms",
        7 * DAY_MS,
        "Longest time that a delegation token can live. It cannot be renewed beyond that.",
        check=at_least(1),
        importance=Importance.MEDIUM,
    )
    delegation_token_expiry_time_ms = long(
        "delegation.token.expiry.time.ms",
        DAY_MS,
        "Time after which a delegation token expires unless it is renewed.",
        check=at_least(1),
        importance=Importance.MEDIUM,
    )
    delegation_token_expiry_check_interval_ms = long(
        "delegation.token.expiry.check.interval.ms",
        HOUR_MS,
        "Interval between two checks for expired delegation tokens, which are removed.",
        check=at_least(1),
        importance=Importance.LOW,
    )
