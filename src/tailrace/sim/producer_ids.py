"""A ledger of the producer ids that brokers hand out: none is handed out twice."""

import json
from collections.abc import Sequence

from tailrace.coordination.layout import PRODUCER_ID_BLOCK
from tailrace.coordination.store import Change
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.messages.producer import InitProducerIdRequest, InitProducerIdResponse


class ProducerIdLedger:
    """All producer ids of a seed, across the restarts of brokers, whether their replies arrive or not.

    A producer without transactions gets a new id with each request. One with a transactional id keeps its id, which no
    other producer gets.
    """

    def __init__(self) -> None:
        self._owners: dict[int, str] = {}
        self._end = 0
        self._request_count = 0

    def answered(self, request: InitProducerIdRequest, response: InitProducerIdResponse) -> str | None:
        """Note a reply; return what is wrong with it."""
        if response.error_code != ErrorCode.NONE:
            return None
        self._request_count += 1
        name = request.transactional_id
        owner = f"request {self._request_count}" if name is None else f"transactional id {name}"
        before = self._owners.setdefault(response.producer_id, owner)
        if before != owner:
            return f"producer id {response.producer_id} is handed out for {before} and {owner}"
        if not 0 <= response.producer_id < self._end:
            return f"producer id {response.producer_id} is handed out, but ids are reserved up to {self._end} only"
        return None

    def committed(self, changes: Sequence[Change]) -> str | None:
        """Note blocks of ids that brokers reserve; return what is wrong with them."""
        for change in changes:
            if change.path == PRODUCER_ID_BLOCK and change.node is not None:
                block = json.loads(change.node.value)
                if block["block_start"] < self._end:
                    return f"producer ids from {block['block_start']} are reserved again, after those to {self._end}"
                self._end = block["block_end"] + 1
        return None
