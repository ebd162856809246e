"""Where an idempotent producer gets its identity from, and how that grows older."""

from runnel.client.cluster import Cluster
from runnel.client.sequence import EPOCH_MAX, Identity
from runnel.protocol.errors import ApiError, ErrorCode
from runnel.protocol.messages.producer import InitProducerIdRequest, InitProducerIdResponse

_NO_TRANSACTION_TIMEOUT_MS = 2**31 - 1


async def ask_identity(cluster: Cluster) -> Identity:
    """A producer id from any broker; raises `ApiError`."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_NO_TRANSACTION_TIMEOUT_MS)
    reply = await cluster.request_any(request, InitProducerIdResponse)
    if reply.error_code:
        raise ApiError(ErrorCode(reply.error_code), "asking for a producer id (enable.idempotence)")
    return Identity(reply.producer_id, reply.producer_epoch)


def next_epoch(identity: Identity) -> Identity | None:
    """The identity after this one, which needs nobody's leave (KIP-360); None when a new id is needed."""
    if identity.producer_epoch >= EPOCH_MAX:
        return None
    return identity._replace(producer_epoch=identity.producer_epoch + 1)
