"""The end of the transaction of a `with` block: a commit, or an abort after an error.

The most important error is raised: a failed abort, or that the producer is fenced, before the error of the block,
which becomes its cause.
"""

import asyncio
import logging

from tailrace.client.error import ClientError
from tailrace.client.transaction.state import Phase
from tailrace.client.transaction.transaction import Transactions
from tailrace.protocol.errors import ApiError, RemoteProtocolError

_log = logging.getLogger(__name__)

_ENDED = (Phase.READY, Phase.PREPARED)


async def finish(transactions: Transactions) -> None:
    """Commit, unless the block has ended or prepared its transaction itself; if that fails, abort and raise."""
    if transactions.state.phase in _ENDED:
        return
    try:
        await transactions.commit()
    except Exception as error:
        await give_up(transactions, error)
        raise


async def give_up(transactions: Transactions, error: BaseException) -> None:
    """Abort after an error. Raises only an error that is more important."""
    broken = transactions.state.error if transactions.state.phase is Phase.BROKEN else None
    if broken is not None and broken is not error:
        raise broken from error
    if transactions.is_open:
        try:
            await transactions.abort()
        except Exception as failure:
            raise failure from error


async def abandon(transactions: Transactions, timeout_s: float | None) -> None:
    """Abort an open transaction because the producer closes, if that is possible in time."""
    if not transactions.is_open:
        return
    _log.warning("producer %s was closed with an open transaction, which is aborted", transactions.transactional_id)
    try:
        async with asyncio.timeout(timeout_s):
            await transactions.abort()
    except (TimeoutError, ClientError, ApiError, RemoteProtocolError) as error:
        _log.warning(
            "the transaction was not aborted; its coordinator aborts it after transaction.timeout.ms: %s", error
        )
