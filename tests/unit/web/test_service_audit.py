"""The audit log of an HTTP service."""

import json
from typing import Any

import pytest

from tailrace.base.security_limits import AUDIT_DENIALS_PER_PRINCIPAL_MAX, AUDIT_FAILURES_PER_PRINCIPAL_MAX
from tailrace.web.audit import Denial, ServiceAudit

DENIAL = Denial("User:ann", "10.0.0.1", "GET /subjects/{subject}/versions", "DESCRIBE", "TOPIC", "orders", 403)


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(record.getMessage()) for record in caplog.records if record.name == "tailrace.audit"]


@pytest.fixture(autouse=True)
def _level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "tailrace.audit")


async def test_equal_denials_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    audit = ServiceAudit("registry")
    for _ in range(4):
        audit.deny(DENIAL)
    audit.close()
    first, rest = lines(caplog)
    assert {name: value for name, value in first.items() if name != "time"} == {
        "event": "denial",
        "service": "registry",
        **DENIAL.fields(),
        "count": 1,
    }
    assert rest["count"] == 3


async def test_a_flood_writes_a_bounded_number_of_lines_and_does_not_hide_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    audit = ServiceAudit("registry")
    for index in range(2 * AUDIT_DENIALS_PER_PRINCIPAL_MAX):
        audit.deny(DENIAL._replace(name=f"guess-{index}"))
        audit.deny_login(f"guess-{index}", "10.0.0.9", "wrong password")
    for _ in range(2 * AUDIT_FAILURES_PER_PRINCIPAL_MAX):
        audit.note("User:ann", "10.0.0.1", "PUT /config", "/config", 422)
    audit.deny(DENIAL._replace(principal="User:bob"))
    audit.close()
    found = lines(caplog)
    assert len(found) == 2 * (AUDIT_DENIALS_PER_PRINCIPAL_MAX + 1) + AUDIT_FAILURES_PER_PRINCIPAL_MAX + 1 + 1
    assert any(line["principal"] == "User:bob" for line in found)


async def test_a_name_is_cut_and_cannot_forge_a_line(caplog: pytest.LogCaptureFixture) -> None:
    audit = ServiceAudit("connect")
    audit.note("User:ann\n{}", "10.0.0.1", "PUT /connectors/{connector}/config", "x" * 10_000, 200)
    assert "\n" not in caplog.records[-1].getMessage()
    assert len(lines(caplog)[0]["name"]) < 300
    audit.close()
