"""What replies to webhooks mean, and how requests are named and signed."""

import pytest

from tailrace.spark.connector.webhook.reply import Outcome, idempotency_key, is_signed, judge, sign, wait_s


@pytest.mark.parametrize(
    ("outcome", "statuses"),
    [
        (Outcome.ACCEPTED, (200, 201, 202, 204)),
        (Outcome.RETRY, (408, 409, 425, 429, 500, 502, 503, 504, 599)),
        (Outcome.REFUSED, (400, 406, 412, 413, 415, 422)),
        (Outcome.FAILED, (301, 302, 307, 401, 403, 404, 405, 407, 410)),
    ],
)
def test_a_status_has_one_meaning(outcome: Outcome, statuses: tuple[int, ...]) -> None:
    assert {judge(status) for status in statuses} == {outcome}


def test_waits_double_and_a_reply_may_ask_for_another() -> None:
    assert [wait_s(attempt, None) for attempt in (1, 2, 3, 7, 100)] == [0.5, 1, 2, 30, 30]
    assert (wait_s(1, "7"), wait_s(1, "100000"), wait_s(2, "soon")) == (7, 300, 1)
    assert wait_s(1, "Wed, 21 Oct 2015 07:28:00 GMT", now_s=1445412470.0) == 10
    assert wait_s(1, "Wed, 21 Oct 2015 07:28:00 GMT", now_s=1445412490.0) == 0


def test_a_repeated_request_has_its_key_again_and_no_other_has_it() -> None:
    key = idempotency_key("q", 7, 1, 100, "orders", b"{}")
    assert key == idempotency_key("q", 7, 1, 100, "orders", b"{}")
    others = {
        idempotency_key("p", 7, 1, 100, "orders", b"{}"),
        idempotency_key("q", 8, 1, 100, "orders", b"{}"),
        idempotency_key("q", 7, 2, 100, "orders", b"{}"),
        idempotency_key("q", 7, 1, 101, "orders", b"{}"),
        idempotency_key("q", 7, 1, 100, "others", b"{}"),
        idempotency_key("q", 7, 1, 100, "orders", b"[]"),
    }
    assert key not in others
    assert len(others) == 6
    assert idempotency_key("q", 7, 1, 100, "aufträge", b"{}").isascii()


def test_signatures_are_those_of_github() -> None:
    # The example in GitHub's documentation of webhooks.
    body, secret = b"Hello, World!", "It's a Secret to Everybody"
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert sign(secret, body) == signature
    assert is_signed(secret, body, signature)
    for wrong in (None, "", "sha256=", signature.upper(), sign("other", body), "sha256=ä"):
        assert not is_signed(secret, body, wrong)
