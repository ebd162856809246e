"""The audit log of an HTTP service: denials and changes, one line of JSON each, for the logger `tailrace.audit`.

Lines have the fields of a broker's audit log, and `service` in place of the listener and the client id. `api` is the
method and the route of the request, and `status` the outcome. As in a broker, equal denials within an interval are
counted, and a principal, or an address whose logins are refused, gets only so many lines.
"""

import asyncio
import json
import logging
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tailrace.base.security_limits import (
    AUDIT_DENIALS_PER_PRINCIPAL_MAX,
    AUDIT_FAILURES_PER_PRINCIPAL_MAX,
    AUDIT_INTERVAL_S,
    AUDIT_PRINCIPALS_MAX,
    AUDIT_TEXT_LENGTH_MAX,
)

log = logging.getLogger("tailrace.audit")

_OTHERS = "others"
"""In place of the principals beyond the bound. A principal has a colon."""


class Denial(NamedTuple):
    """What a caller was denied."""

    principal: str
    host: str
    api: str
    operation: str
    resource_type: str
    name: str
    status: int
    reason: str = ""
    """What the brokers say about a refused login."""

    def fields(self) -> dict[str, Any]:
        """Return the fields of a line; a denial because of ACLs needs no reason."""
        return {name: value for name, value in self._asdict().items() if value or name != "reason"}


class _Tally:
    """What one principal was denied, and failed to change, within an interval."""

    def __init__(self) -> None:
        self.repeats: dict[Denial, int] = {}
        self.unlogged_denial_count = 0
        self.failure_count = 0


class ServiceAudit:
    """The audit log of one service."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._tallies: dict[str, _Tally] = {}
        self._timer: asyncio.TimerHandle | None = None

    def deny(self, denial: Denial) -> None:
        """Log a denial, unless an equal one was logged a moment ago."""
        self._deny(denial.principal, denial)

    def deny_login(self, user: str, host: str, reason: str) -> None:
        """Log that the brokers have refused the login of a caller; the reason must not have secrets."""
        self._deny(f"login:{host}", Denial(f"User:{user}", host, "", "LOGIN", "USER", user, 401, reason))

    def note(self, principal: str, host: str, api: str, name: str, status: int) -> None:
        """Log a change that a caller has asked for, with its outcome; `name` is the path of the request."""
        if status >= 400:
            tally = self._tally(principal)
            tally.failure_count += 1
            if tally.failure_count > AUDIT_FAILURES_PER_PRINCIPAL_MAX:
                return
        about = {"principal": _cut(principal), "host": host, "api": api, "name": _cut(name), "status": status}
        self._write("change", about)

    def close(self) -> None:
        """Log what was only counted so far."""
        if self._timer is not None:
            self._timer.cancel()
            self._end_interval()

    def _deny(self, who: str, denial: Denial) -> None:
        denial = denial._replace(principal=_cut(denial.principal), name=_cut(denial.name), reason=_cut(denial.reason))
        tally = self._tally(who)
        if denial in tally.repeats:
            tally.repeats[denial] += 1
        elif len(tally.repeats) >= AUDIT_DENIALS_PER_PRINCIPAL_MAX:
            tally.unlogged_denial_count += 1
        else:
            tally.repeats[denial] = 0
            self._write("denial", {**denial.fields(), "count": 1})

    def _tally(self, who: str) -> _Tally:
        """Return the tally of a principal in this interval; those beyond the bound have one together."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(AUDIT_INTERVAL_S, self._end_interval)
        who = _cut(who)
        if who not in self._tallies and len(self._tallies) >= AUDIT_PRINCIPALS_MAX:
            who = _OTHERS
        return self._tallies.setdefault(who, _Tally())

    def _end_interval(self) -> None:
        self._timer = None
        tallies, self._tallies = self._tallies, {}
        for who, tally in tallies.items():
            for denial, count in tally.repeats.items():
                if count:
                    self._write("denial", {**denial.fields(), "count": count})
            self._write_rest("denial", "denials", who, tally.unlogged_denial_count)
            self._write_rest("change", "failed changes", who, tally.failure_count - AUDIT_FAILURES_PER_PRINCIPAL_MAX)

    def _write_rest(self, event: str, what: str, who: str, count: int) -> None:
        if count > 0:
            note = f"further {what}, which are not logged one by one"
            self._write(event, {"principal": who, "count": count, "note": note})

    def _write(self, event: str, fields: dict[str, Any]) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        # JSON escapes control characters, so no name can forge a line.
        log.info("%s", json.dumps({"time": now, "event": event, "service": self._service, **fields}))


def _cut(text: str) -> str:
    return text if len(text) <= AUDIT_TEXT_LENGTH_MAX else text[:AUDIT_TEXT_LENGTH_MAX] + "…"
