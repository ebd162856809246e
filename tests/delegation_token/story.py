"""The questions about delegation tokens, in the order in which they are asked, and the answers as lines of text.

A line has the error, the principals, and the times as minutes from now or from the creation. Tokens have names, under
which later questions speak of them; ids and HMACs are different on every broker.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.authorization.wire import Closed
from tests.delegation_token.ground import ANONYMOUS, Ground, until_not

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.message import Message
from tailrace.protocol.messages.delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenRequestRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenRequestOwner,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
LONGEST_MS = (1 << 63) - 1
HOLDER = "holder of a"
UNKNOWN = "unknown"


class Create(NamedTuple):
    """Create a token, which gets a name if later questions need it."""

    who: str
    about: str
    version: int = 3
    life_ms: int = -1
    renewers: tuple[str, ...] = ()
    owner: tuple[str | None, str | None] = (None, None)
    name: str = ""


class Renew(NamedTuple):
    """Renew a token."""

    who: str
    token: str
    about: str
    period_ms: int = -1
    version: int = 2


class Expire(NamedTuple):
    """Expire a token, at once or later."""

    who: str
    token: str
    about: str
    period_ms: int = -1
    version: int = 2


class Describe(NamedTuple):
    """Describe the tokens of owners."""

    who: str
    about: str
    owners: tuple[str, ...] | None = None
    version: int = 3


Question = Create | Renew | Expire | Describe

OF_OWNER = ("User", "owner")
CREATIONS = (
    *(Create("owner", f"for oneself, v{v}", v, -1, ("User:renewer",), name="abc"[v - 1]) for v in (1, 2, 3)),
    Create("owner", "a life of 0", life_ms=0),
    Create("owner", "a negative life", life_ms=-5),
    Create("owner", "a shorter life than the broker's", life_ms=10 * MINUTE_MS, name="brief"),
    Create("owner", "a longer life than the broker's", life_ms=10 * HOUR_MS),
    Create("owner", "the longest life", life_ms=LONGEST_MS),
    Create("owner", "a renewer that is a group", renewers=("Group:renewer",)),
    Create("owner", "a renewer without a name", renewers=("User:",)),
    Create("owner", "a renewer without a type", renewers=(":renewer",)),
    Create("owner", "a renewer twice", renewers=("User:renewer", "User:renewer"), name="twice"),
    Create("owner", "the owner as renewer", renewers=("User:owner",), name="own"),
    Create("owner", "the client by name", owner=OF_OWNER),
    Create("stranger", "for another user, without the right", owner=OF_OWNER),
    Create("creator", "for another user, with the right", owner=OF_OWNER, name="given"),
    Create("admin", "for another user, as super user", owner=OF_OWNER),
    Create("admin", "for a user that does not exist", owner=("User", "absent")),
    Create("owner", "an owner without a type", owner=(None, "owner")),
    Create("owner", "an owner with an empty type", owner=("", "owner")),
    Create("owner", "an owner without a name", owner=("User", None)),
    Create("owner", "a group without a name", owner=("Group", "")),
    Create("admin", "for a group", owner=("Group", "owner")),
    Create(ANONYMOUS, "on a listener without a login"),
    Create(HOLDER, "logged in with a token"),
    Create("owner", "a life of a millisecond", life_ms=1, name="gone"),
)
DESCRIPTIONS = (
    *(Describe("owner", f"all, v{version}", version=version) for version in (1, 2, 3)),
    *(Describe(who, "all") for who in ("renewer", "stranger", "creator", "admin", "describer", "reader")),
    *(
        Describe(who, f"of {' and '.join(owners) or 'an empty list'}", owners)
        for owners in ((), ("User:owner",), ("User:renewer",), ("User:absent", "User:owner"), ("Group:owner",))
        for who in ("owner", "renewer", "stranger", "admin")
    ),
    *(Describe(who, "of User:creator", ("User:creator",)) for who in ("owner", "creator", "admin")),
    Describe(ANONYMOUS, "all"),
    Describe(HOLDER, "all"),
)
RENEWALS: tuple[Renew, ...] = (
    *(Renew("owner", "a", f"by its owner, v{version}", version=version) for version in (1, 2)),
    Renew("renewer", "a", "by its renewer"),
    Renew("stranger", "a", "by a stranger"),
    Renew("admin", "a", "by a super user"),
    Renew("creator", "given", "by the requester, who does not own it"),
    Renew("owner", "given", "by the owner, who did not ask for it"),
    Renew("owner", UNKNOWN, "an unknown HMAC"),
    Renew("owner", "", "an empty HMAC"),
    Renew("owner", "a", "a period of 0", 0),
    Renew("owner", "a", "half an hour", 30 * MINUTE_MS),
    Renew("owner", "a", "a negative period", -5),
    Renew("owner", "a", "a longer period than the broker's", 100 * HOUR_MS),
    Renew("owner", "a", "the longest period", LONGEST_MS),
    Renew("owner", "brief", "beyond its maximum"),
    Renew("owner", "gone", "an expired token"),
    Renew("stranger", "gone", "an expired token, by a stranger"),
    Renew(ANONYMOUS, "a", "on a listener without a login"),
    Renew(HOLDER, "a", "logged in with the token"),
)
EXPIRIES: tuple[Renew | Expire, ...] = (
    Expire("stranger", "a", "by a stranger"),
    Expire("admin", "a", "by a super user"),
    Expire("creator", "given", "by the requester, who does not own it"),
    Expire("owner", UNKNOWN, "an unknown HMAC"),
    Expire("owner", "", "an empty HMAC"),
    Expire(ANONYMOUS, "a", "on a listener without a login"),
    Expire(HOLDER, "a", "logged in with the token"),
    Expire("renewer", "a", "in half an hour, by its renewer", 30 * MINUTE_MS),
    Expire("owner", "a", "in half an hour, v1", 30 * MINUTE_MS, 1),
    Expire("owner", "a", "beyond its maximum", 100 * HOUR_MS),
    Expire("owner", "a", "the longest period", LONGEST_MS),
    Expire("owner", "b", "a period of 0", 0),
    Expire("owner", "b", "in half an hour, after a period of 0", 30 * MINUTE_MS),
    Renew("owner", "b", "after a period of 0"),
    Expire("owner", "gone", "an expired token, in half an hour", 30 * MINUTE_MS),
    Expire("stranger", "gone", "an expired token, by a stranger"),
    Expire("owner", "gone", "an expired token"),
    Expire("owner", "gone", "an expired token, once more"),
    Expire("renewer", "c", "by its renewer"),
    Renew("owner", "c", "after it was expired"),
    Expire("owner", "c", "after it was expired"),
    Expire("owner", "given", "a negative period", -5),
)
AFTERWARDS = tuple(Describe(who, "all, afterwards") for who in ("owner", "renewer", "admin"))
WITHOUT_KEY = (
    *(
        question
        for who in ("owner", ANONYMOUS)
        for question in (
            Create(who, "without a key"),
            Renew(who, UNKNOWN, "without a key"),
            Expire(who, UNKNOWN, "without a key"),
            Describe(who, "without a key"),
        )
    ),
    Create("stranger", "for another user, without a key", owner=OF_OWNER),
    Create("owner", "a renewer that is a group, without a key", renewers=("Group:renewer",)),
    Describe("owner", "an empty list, without a key", ()),
)


class Token(NamedTuple):
    """A token that was created."""

    token_id: str
    secret: bytes
    max_timestamp_ms: int


def title(question: Question) -> str:
    """Return the text by which the answer to a question is kept."""
    about = f"{question.token or 'nothing'}: " if isinstance(question, Renew | Expire) else ""
    return f"{type(question).__name__} as {question.who}: {about}{question.about}"


class Story:
    """Asks a broker all questions, one after the other."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._tokens: dict[str, Token] = {}
        self._names: dict[str, str] = {}
        self._expiries_ms: dict[str, int] = {}

    def tell(self) -> Iterator[tuple[str, str]]:
        """Yield the title of each question with the answer."""
        self._ground.give_rights()
        self._wait_for_controller()
        for question in CREATIONS:
            if question.who == HOLDER:
                self._ground.log_in_with_token(HOLDER, self._tokens["a"].token_id, self._tokens["a"].secret)
            yield title(question), self._answer(question)
        self._wait_for_tokens()
        for described in DESCRIPTIONS:
            yield title(described), self._answer(described)
        changes: tuple[Renew | Expire, ...] = RENEWALS + EXPIRIES
        for changed in changes:
            yield title(changed), self._answer(changed)
            self._wait_for_tokens()
        for described in AFTERWARDS:
            yield title(described), self._answer(described)

    def tell_without_key(self) -> Iterator[tuple[str, str]]:
        """Yield the questions to a broker without a key for tokens, and the answers."""
        self._ground.give_rights()
        for question in WITHOUT_KEY:
            yield title(question), self._answer(question)

    # --- one question

    def _answer(self, question: Question) -> str:
        try:
            return self._try_answer(question)
        except Closed:
            self._ground.hang_up(question.who)
            return "the connection is closed"

    def _try_answer(self, question: Question) -> str:
        if isinstance(question, Create):
            return self._create(question)
        if isinstance(question, Describe):
            return self._describe(question)
        token = self._tokens.get(question.token)
        secret = b"unknown" if question.token == UNKNOWN else b"" if token is None else token.secret
        request: Message
        if isinstance(question, Renew):
            request = RenewDelegationTokenRequest(hmac=secret, renew_period_ms=question.period_ms)
        else:
            request = ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=question.period_ms)
        now_ms = time.time_ns() // 1_000_000
        reply = self._ground.ask(question.who, request, question.version)
        if token is not None and not reply.error_code:
            if isinstance(question, Expire) and question.period_ms < 0:
                del self._expiries_ms[token.token_id]
            else:
                self._expiries_ms[token.token_id] = reply.expiry_timestamp_ms
                if isinstance(question, Expire) and question.period_ms == 0:
                    until_not(lambda: time.time_ns() // 1_000_000 <= reply.expiry_timestamp_ms)
        return f"{_error(reply)}, {_moment(reply.expiry_timestamp_ms, now_ms, token)}"

    def _create(self, question: Create) -> str:
        owner_type, owner_name = question.owner
        renewers = [renewer.partition(":") for renewer in question.renewers]
        request = CreateDelegationTokenRequest(
            renewers=[
                CreateDelegationTokenRequestRenewer(principal_type=kind, principal_name=name)
                for kind, _, name in renewers
            ],
            max_lifetime_ms=question.life_ms,
        )
        if question.version >= 3:
            request.owner_principal_type, request.owner_principal_name = owner_type, owner_name
        reply = self._ground.ask(question.who, request, question.version)
        if not reply.error_code:
            name = question.name or question.about
            self._tokens[name] = Token(reply.token_id, bytes(reply.hmac), reply.max_timestamp_ms)
            self._names[reply.token_id] = name
            self._expiries_ms[reply.token_id] = reply.expiry_timestamp_ms
            if not question.name and reply.principal_name == "owner" and reply.principal_type == "User":
                self._remove(reply)
        parts = [_error(reply), f"of {reply.principal_type}:{reply.principal_name}"]
        if question.version >= 3:
            parts.append(f"asked for by {reply.token_requester_principal_type}:{reply.token_requester_principal_name}")
        if reply.token_id:
            lives_ms, expires_ms = (
                moment - reply.issue_timestamp_ms for moment in (reply.max_timestamp_ms, reply.expiry_timestamp_ms)
            )
            parts.append(f"lives {lives_ms} ms, expires after {expires_ms} ms, {len(reply.hmac)} bytes")
        else:
            times = reply.issue_timestamp_ms, reply.expiry_timestamp_ms, reply.max_timestamp_ms
            parts.append(f"no token, times {times}, {len(reply.hmac)} bytes")
        return ", ".join(parts)

    def _describe(self, question: Describe) -> str:
        owners = None
        if question.owners is not None:
            split = [owner.partition(":") for owner in question.owners]
            owners = [
                DescribeDelegationTokenRequestOwner(principal_type=kind, principal_name=name) for kind, _, name in split
            ]
        reply = self._ground.ask(question.who, DescribeDelegationTokenRequest(owners=owners), question.version)
        described = sorted(self._described(token, question.version) for token in reply.tokens)
        return f"{_error(reply)}: {'; '.join(described) or 'nothing'}"

    def _described(self, token: Any, version: int) -> str:
        name = self._names.get(token.token_id, "?")
        same = self._tokens[name].secret == bytes(token.hmac) if name in self._tokens else False
        renewers = " ".join(sorted(f"{each.principal_type}:{each.principal_name}" for each in token.renewers))
        requester = f"{token.token_requester_principal_type}:{token.token_requester_principal_name}"
        return (
            f"{name} of {token.principal_type}:{token.principal_name}"
            f"{f' asked for by {requester}' if version >= 3 else ''}"
            f"{f' renewed by {renewers}' if renewers else ''}{'' if same else ' with another HMAC'}"
        )

    def _remove(self, created: Any) -> None:
        """Expire a token of which no other question speaks."""
        expire = ExpireDelegationTokenRequest(hmac=bytes(created.hmac), expiry_time_period_ms=-1)
        until_not(lambda: self._ground.ask("owner", expire, 2).error_code)
        self._expiries_ms.pop(created.token_id, None)

    # --- waiting

    def _wait_for_controller(self) -> None:
        """Wait until a broker that has just started answers; the token that this creates is removed."""
        request = CreateDelegationTokenRequest(owner_principal_type=None, owner_principal_name=None, max_lifetime_ms=-1)
        replies: list[Any] = []

        def fails() -> bool:
            replies.append(self._ground.ask("owner", request, 3))
            return bool(replies[-1].error_code)

        until_not(fails)
        self._remove(replies[-1])

    def _wait_for_tokens(self) -> None:
        """Wait until the broker knows every change; Kafka's forgets one that comes before it knows the last."""

        def is_behind() -> bool:
            reply = self._ground.ask("admin", DescribeDelegationTokenRequest(owners=None), 3)
            return {token.token_id: token.expiry_timestamp for token in reply.tokens} != self._expiries_ms

        until_not(is_behind)


def _error(reply: Any) -> str:
    return ErrorCode(reply.error_code).name if reply.error_code else "ok"


def _moment(timestamp_ms: int, now_ms: int, token: Token | None) -> str:
    if timestamp_ms <= 0:
        return f"time {timestamp_ms}"
    if token is not None and timestamp_ms == token.max_timestamp_ms:
        return "expires at its maximum"
    minutes = round((timestamp_ms - now_ms) / MINUTE_MS / 10) * 10
    return f"expires in about {minutes} min"
