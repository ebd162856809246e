"""Produce requests whose client has left while their batches are opened."""

import pytest
from tests.unit.sample import make_batch
from tests.unit.server.handlers.peer import Peer, peer, produce_request

from tailrace.protocol.errors import ErrorCode
from tailrace.records.compression import Compression
from tailrace.server.connection import ConnectionClosed
from tailrace.server.produce import validation

VALUE_SIZE = 300_000  # too large to be opened on the event loop


async def codes(client: Peer, *, acks: int = -1) -> list[int]:
    """The outcome of one request with a large batch for each of three partitions."""
    batch = make_batch(b"x" * VALUE_SIZE, compression=Compression.ZSTD)
    response = await client.ask(produce_request({("t", index): batch for index in range(3)}, acks), 12)
    return [reply.error_code for reply in response.responses[0].partition_responses]


@pytest.mark.parametrize("limit_bytes", [0, 10 * VALUE_SIZE], ids=["beyond the limit", "below the limit"])
@pytest.mark.parametrize("is_abandoned", [False, True], ids=["present", "gone"])
async def test_a_request_that_opens_much_is_refused_if_its_client_is_gone(
    monkeypatch: pytest.MonkeyPatch, limit_bytes: int, is_abandoned: bool
) -> None:
    """2,000 batches that open to 64 MiB each were all opened after the client had left."""
    monkeypatch.setattr(validation, "OPENED_BYTES_UNATTENDED_MAX", limit_bytes)
    monkeypatch.setattr(validation, "CHECK_TURN_BYTES_MAX", VALUE_SIZE)
    async with peer() as client:
        await client.create("t", 3)
        client.line.is_abandoned = is_abandoned
        is_refused = is_abandoned and not limit_bytes
        assert await codes(client) == [ErrorCode.REQUEST_TIMED_OUT if is_refused else ErrorCode.NONE] * 3


async def test_without_acks_the_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "OPENED_BYTES_UNATTENDED_MAX", 0)
    monkeypatch.setattr(validation, "CHECK_TURN_BYTES_MAX", VALUE_SIZE)
    async with peer() as client:
        await client.create("t", 3)
        client.line.is_abandoned = True
        with pytest.raises(ConnectionClosed, match="REQUEST_TIMED_OUT"):
            await codes(client, acks=0)
