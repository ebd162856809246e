"""A debt that is paid off at a rate."""

from tailrace.base.token_bucket import TokenBucket


def test_a_bucket_starts_with_the_credit_of_its_past() -> None:
    bucket = TokenBucket(paid_at_ms=-500)
    bucket.pay(0, 1000, 800)
    assert bucket.debt == -500
    bucket.pay(1000, 1000, 800)
    assert bucket.debt == -800


def test_the_rest_follows_the_rate_of_the_moment() -> None:
    bucket = TokenBucket(0)
    bucket.take(3000)
    assert bucket.rest_ms(1000) == 3000
    assert bucket.rest_ms(100) == 30_000
    bucket.pay(2000, 1000, 0)
    assert bucket.rest_ms(1000) == 1000
    bucket.pay(9000, 1000, 0)
    assert bucket.rest_ms(1000) == 0
