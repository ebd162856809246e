"""A client that applies incremental replies ends with the same view as one that always asks for everything.

The model is a broker of a few partitions whose watermarks move and that fail now and then, a
client that speaks KIP-227 as Kafka's own does, and a network that loses replies. Each reply
has room for the data of two partitions, so turns matter too.
"""

from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tailrace.machines.fetch_session import FetchContext, FetchPartition, FetchSessions, Key
from tailrace.protocol.errors import ApiError, ErrorCode

KEYS: list[Key] = [("t", index) for index in range(5)]
ROOM = 2
EVICTION_MS = 100

View = tuple[int, int, int]
"""Error code, high watermark and log start of a partition."""


class Replica:
    """One partition of the broker."""

    def __init__(self) -> None:
        self.error_code = 0
        self.high_watermark = 0
        self.log_start = 0

    def view(self) -> View:
        return (self.error_code, -1, -1) if self.error_code else (0, self.high_watermark, self.log_start)


class Client:
    """What Kafka's FetchSessionHandler does."""

    def __init__(self) -> None:
        self.session_id = 0
        self.epoch = 0
        self.positions: dict[Key, int] = {KEYS[0]: 0, KEYS[1]: 0, KEYS[2]: 0}
        self.sent: dict[Key, int] = {}
        self.view: dict[Key, View] = {}

    def request(self) -> tuple[list[FetchPartition], list[Key]]:
        changed = [key for key, at in self.positions.items() if self.epoch == 0 or self.sent.get(key) != at]
        forgotten = [key for key in self.sent if key not in self.positions] if self.epoch else []
        return [FetchPartition(key, self.positions[key]) for key in changed], forgotten

    def replied(self, session_id: int, reply: dict[Key, tuple[View, int]]) -> None:
        self.sent = dict(self.positions)
        self.session_id = session_id
        self.epoch = self.epoch + 1 if session_id else 0
        for key, (view, position) in reply.items():
            assert key in self.positions, "only what is followed is answered"
            self.view[key] = view
            self.positions[key] = position

    def refused(self, code: ErrorCode) -> None:
        if code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self.session_id = 0
        self.epoch = 0


class Fetching(RuleBasedStateMachine):
    """Broker, client and network."""

    def __init__(self) -> None:
        super().__init__()
        self.replicas = {key: Replica() for key in KEYS}
        self.sessions = FetchSessions(2, EVICTION_MS, count(1).__next__)
        self.client = Client()
        self.now_ms = 0
        self.is_current = False

    def answer(self, context: FetchContext) -> dict[Key, tuple[View, int]]:
        """What the fetch handler does with a context."""
        reply, served, room = {}, [], ROOM
        for partition in context.partitions:
            error_code, high_watermark, log_start = view = self.replicas[partition.key].view()
            position, size_bytes = partition.wanted, 0
            if not error_code and room and position < high_watermark:
                position, size_bytes, room = high_watermark, high_watermark - position, room - 1
                served.append(partition.key)
            if partition.has_news(error_code, size_bytes, high_watermark, log_start) or not context.incremental:
                reply[partition.key] = view, position
                partition.told(error_code, high_watermark, log_start)
        if context.session is not None:
            context.session.served(served)
        return reply

    def exchange(self, *, is_lost: bool = False) -> None:
        client = self.client
        self.now_ms += EVICTION_MS // 2
        wanted, forgotten = client.request()
        try:
            context = self.sessions.begin(self.now_ms, client.session_id, client.epoch, wanted, forgotten, False)
        except ApiError as error:
            client.refused(error.code)
            self.is_current = False
            return
        reply = self.answer(context)
        if not is_lost:
            client.replied(context.session_id, reply)
            self.is_current = True

    @rule(times=st.integers(1, 3))
    def fetch(self, times: int) -> None:
        for _ in range(times):
            self.exchange()

    @rule()
    def lose_a_reply(self) -> None:
        self.exchange(is_lost=True)

    @rule(key=st.sampled_from(KEYS))
    def follow(self, key: Key) -> None:
        self.client.positions.setdefault(key, self.replicas[key].log_start)
        self.is_current = False

    @rule(key=st.sampled_from(KEYS))
    def forget(self, key: Key) -> None:
        self.client.positions.pop(key, None)
        self.client.view.pop(key, None)

    @rule(key=st.sampled_from(KEYS))
    def append(self, key: Key) -> None:
        self.replicas[key].high_watermark += 1
        self.is_current = False

    @rule(key=st.sampled_from(KEYS))
    def delete_records(self, key: Key) -> None:
        self.replicas[key].log_start = self.replicas[key].high_watermark
        self.is_current = False

    @rule(key=st.sampled_from(KEYS), error_code=st.sampled_from([0, 3, 56]))
    def fail_or_mend(self, key: Key, error_code: int) -> None:
        self.replicas[key].error_code = error_code
        self.is_current = False

    @rule(key=st.sampled_from(KEYS))
    def rewind(self, key: Key) -> None:
        if key in self.client.positions:
            self.client.positions[key] = 0

    @rule()
    def others_take_all_slots(self) -> None:
        self.now_ms += EVICTION_MS + 1
        for _ in range(2):
            self.sessions.begin(self.now_ms, 0, 0, [FetchPartition(KEYS[0], 0)], (), False)

    @invariant()
    def the_client_knows_what_a_full_fetch_would_tell(self) -> None:
        if self.is_current:
            assert self.client.view == {key: self.replicas[key].view() for key in self.client.positions}

    def teardown(self) -> None:
        """At rest, everything readable is read soon, whatever the turns were."""
        for replica in self.replicas.values():
            replica.error_code = 0
        for _ in range(2 + len(KEYS)):  # an answer of "no such session", one full fetch, then two partitions a time
            self.exchange()
        ends = {key: replica.high_watermark for key, replica in self.replicas.items()}
        assert self.client.positions == {key: ends[key] for key in self.client.positions}


TestFetching = Fetching.TestCase
TestFetching.settings = settings(max_examples=100, stateful_step_count=40, deadline=None, derandomize=True)
