"""What a transaction coordinator is configured with."""

from dataclasses import dataclass

from runnel.config.unit import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS


@dataclass(frozen=True, slots=True)
class TransactionSetting:
    """Kafka's defaults, by Kafka's options."""

    timeout_ms_max: int = 15 * MINUTE_MS  # transaction.max.timeout.ms
    expiration_ms: int = 7 * DAY_MS  # transactional.id.expiration.ms
    timeout_interval_ms: int = 10 * SECOND_MS  # transaction.abort.timed.out.transaction.cleanup.interval.ms
    expiry_interval_ms: int = HOUR_MS  # transaction.remove.expired.transaction.cleanup.interval.ms
    is_two_phase_enabled: bool = False  # transaction.two.phase.commit.enable
