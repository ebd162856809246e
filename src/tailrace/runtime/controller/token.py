"""The changes of delegation tokens by any broker, and the removal of expired ones by the controller."""

import asyncio
import logging
from collections.abc import Callable

from tailrace.base.clock import Clock
from tailrace.base.limits import RECORDS_PER_COMMIT_MAX
from tailrace.base.security_limits import TOKENS_PER_OWNER_MAX
from tailrace.base.text import printable
from tailrace.config.broker import BrokerConfig
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.record import Record
from tailrace.machines.controller.security_record import TokenRecord, TokenRemoved
from tailrace.machines.controller.token import decide_sweep
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.runtime.controller.controller import Controller

log = logging.getLogger("tailrace.runtime")


async def create_token(controller: Controller, image: ClusterImage, token: TokenRecord) -> None:
    """Store a new token."""

    def decide() -> list[Record]:
        if sum(other.owner == token.owner for other in image.tokens.values()) >= TOKENS_PER_OWNER_MAX:
            message = f"{token.owner} has {TOKENS_PER_OWNER_MAX} delegation tokens already"
            raise ApiError(ErrorCode.POLICY_VIOLATION, message)
        return [token]

    await controller.change_as_any_broker(decide)
    requester, owner = printable(token.requester), printable(token.owner)
    log.info("%s created delegation token %s of %s", requester, token.token_id, owner)


async def change_token(
    controller: Controller,
    image: ClusterImage,
    token_id: str,
    change: Callable[[TokenRecord], TokenRecord | TokenRemoved],
) -> TokenRecord | TokenRemoved:
    """Replace a token by the result of `change`, which raises if that is not allowed; return the result."""
    outcome: TokenRecord | TokenRemoved = TokenRemoved(token_id)

    def decide() -> list[Record]:
        nonlocal outcome
        if token_id not in image.tokens:
            raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        outcome = change(image.tokens[token_id])
        return [outcome]

    await controller.change_as_any_broker(decide)
    if isinstance(outcome, TokenRemoved):
        log.info("removed delegation token %s", token_id)
    else:
        log.info("delegation token %s expires at %d", token_id, outcome.expiry_timestamp)
    return outcome


class TokenSweep:
    """The periodic removal of expired tokens, by the broker that is the controller."""

    def __init__(
        self, controller: Controller, image: ClusterImage, clock: Clock, config: Callable[[], BrokerConfig]
    ) -> None:
        self._controller = controller
        self._image = image
        self._clock = clock
        self._config = config

    async def run(self) -> None:
        """Remove expired tokens, for ever."""
        while True:
            await asyncio.sleep(self._config().delegation_token_expiry_check_interval_ms / 1000)
            if self._controller.is_active:
                try:
                    await self.remove_expired()
                except ApiError as error:
                    log.warning("expired delegation tokens could not be removed: %s", error)

    async def remove_expired(self) -> None:
        """Remove the tokens that are expired now."""
        now_ms = self._clock.now_ms()
        removed: list[TokenRemoved] = []

        def decide() -> list[Record]:
            removed[:] = decide_sweep(self._image, now_ms, RECORDS_PER_COMMIT_MAX)
            return [*removed]

        while True:
            await self._controller.change_as_any_broker(decide)
            for record in removed:
                log.info("delegation token %s expired and was removed", record.token_id)
            if len(removed) < RECORDS_PER_COMMIT_MAX:
                return
