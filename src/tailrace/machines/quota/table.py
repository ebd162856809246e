"""The quotas of all entities, and which of them applies to a client.

The most specific entity that has the quota decides. A user counts for more than a client id, and a name for more than
the default:

    1. users/U/clients/C           4. users/<default>/clients/C           7. clients/C
    2. users/U/clients/<default>   5. users/<default>/clients/<default>   8. clients/<default>
    3. users/U                     6. users/<default>

The quota of a default is not shared: every user, client id, or pair of them, has as much for itself. All connections
of one of them share what it has.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tailrace.base.limits import QUOTA_NAME_LENGTH_MAX
from tailrace.machines.authorization.host import canonical_host
from tailrace.machines.quota.entity import DEFAULT, Part, QuotaEntity
from tailrace.machines.quota.key import CLIENT_KEYS, QuotaKey, read_quota


class Identity(NamedTuple):
    """The clients that share a quota: those of a user, with a client id, or with both; or those of an address."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None


class Limit(NamedTuple):
    """A quota that applies to a client: how much per second, and the clients that share it."""

    rate: float
    identity: Identity


class QuotaTable:
    """The quotas of a cluster."""

    def __init__(self, quotas: Iterable[tuple[QuotaEntity, Mapping[str, str]]] = ()) -> None:
        """Read stored configs; those that are no quotas are skipped."""
        self._rates: dict[QuotaKey, dict[tuple[Part, Part], float]] = {key: {} for key in CLIENT_KEYS}
        self._connections: dict[Part, float] = {}
        for entity, values in quotas:
            for key in QuotaKey:
                rate = read_quota(values.get(key.value, ""))
                if rate is None:
                    continue
                if entity.ip is None and key in self._rates:
                    self._rates[key][entity.user, entity.client_id] = rate
                elif entity.ip is not None and key is QuotaKey.CONNECTION:
                    ip = canonical_host(entity.ip) if isinstance(entity.ip, str) else entity.ip
                    self._connections[ip] = rate

    @property
    def limits_clients(self) -> bool:
        """Whether any user or client id has a quota."""
        return any(self._rates.values())

    @property
    def limits_addresses(self) -> bool:
        """Whether any address has a quota of new connections."""
        return bool(self._connections)

    def find(self, key: QuotaKey, user: str, client_id: str) -> Limit | None:
        """Return the quota that applies to a client; None if there is none. A client without an id has the id ""."""
        rates = self._rates[key]
        if not rates:
            return None
        levels: tuple[tuple[Part, Part], ...] = (
            (user, client_id),
            (user, DEFAULT),
            (user, None),
            (DEFAULT, client_id),
            (DEFAULT, DEFAULT),
            (DEFAULT, None),
            (None, client_id),
            (None, DEFAULT),
        )
        for level in levels:
            rate = rates.get(level)
            if rate is not None:
                return Limit(rate, Identity(_sharing(user, level[0]), _sharing(client_id, level[1])))
        return None

    def find_connection(self, host: str) -> Limit | None:
        """Return the quota of new connections from an address; None if there is none."""
        if not self._connections:
            return None
        ip = canonical_host(host)
        rate = self._connections.get(ip, self._connections.get(DEFAULT))
        return None if rate is None else Limit(rate, Identity(ip=ip))


def _sharing(name: str, part: Part) -> str | None:
    """Return the name by which the use of a quota is counted; None if the entity with the quota has no such part."""
    return None if part is None else name[:QUOTA_NAME_LENGTH_MAX]
