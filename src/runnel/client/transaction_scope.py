"""How the transaction of a `with` block ends: committed, or aborted where the block or the commit goes wrong.

What is raised is what the user has to know most. An abort that fails comes before the error that it
was for, which is its cause; so does being fenced, because nothing else matters then.
"""

import asyncio
import logging

from runnel.client.error import ClientError
from runnel.client.transaction import Transactions
from runnel.client.transaction_state import Phase
from runnel.protocol.errors import ApiError, RemoteProtocolError

_log = logging.getLogger(__name__)

_ENDED = (Phase.READY, Phase.PREPARED)


async def finish(transactions: Transactions) -> None:
    """Commit, unless the block has ended or prepared its transaction itself; if it cannot be, abort and raise."""
    if transactions.state.phase in _ENDED:
        return
    try:
        await transactions.commit()
    except Exception as error:
        await give_up(transactions, error)
        raise


async def give_up(transactions: Transactions, error: BaseException) -> None:
    """Abort after an error. Raises only what the user shall hear of instead."""
    broken = transactions.state.error if transactions.state.phase is Phase.BROKEN else None
    if broken is not None and broken is not error:
        raise broken from error
    if transactions.is_open:
        try:
            await transactions.abort()
        except Exception as failure:
            raise failure from error


async def abandon(transactions: Transactions, timeout_s: float | None) -> None:
    """Abort what is open because the producer closes, as far as that can be done in time."""
    if not transactions.is_open:
        return
    _log.warning("the producer %s is closed in a transaction, which is aborted", transactions.transactional_id)
    try:
        async with asyncio.timeout(timeout_s):
            await transactions.abort()
    except (TimeoutError, ClientError, ApiError, RemoteProtocolError) as error:
        _log.warning("the transaction was not aborted, and is left to its coordinator: %s", error)
