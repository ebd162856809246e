"""The configs of a transaction coordinator."""

from dataclasses import dataclass

from tailrace.config.unit import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS


@dataclass(frozen=True, slots=True)
class TransactionSetting:
    """The configs, with Kafka's defaults."""

    timeout_ms_max: int = 15 * MINUTE_MS  # transaction.max.timeout.ms
    expiration_ms: int = 7 * DAY_MS  # transactional.id.expiration.ms
    timeout_interval_ms: int = 10 * SECOND_MS  # transaction.abort.timed.out.transaction.cleanup.interval.ms
    expiry_interval_ms: int = HOUR_MS  # transaction.remove.expired.transaction.cleanup.interval.ms
    is_two_phase_enabled: bool = False  # transaction.two.phase.commit.enable
