"""Delegation tokens: created, renewed, expired and read (KIP-48)."""

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import BYTES, INT16, INT32, INT64, STRING, array


class CreateDelegationTokenRequestRenewer(Message):
    """A principal that may renew the token."""

    principal_type: str = wire(STRING, "0+")
    principal_name: str = wire(STRING, "0+")


@message(key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenRequest(Message):
    """Create a token, for the principal of the connection unless another owner is named."""

    owner_principal_type: str | None = wire(STRING, "3+", nullable="3+")
    owner_principal_name: str | None = wire(STRING, "3+", nullable="3+")
    renewers: list[CreateDelegationTokenRequestRenewer] = wire(array(CreateDelegationTokenRequestRenewer), "0+")
    max_lifetime_ms: int = wire(INT64, "0+")


@message(key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenResponse(Message):
    """The token, or the reason why there is none."""

    error_code: int = wire(INT16, "0+")
    principal_type: str = wire(STRING, "0+")
    principal_name: str = wire(STRING, "0+")
    token_requester_principal_type: str = wire(STRING, "3+")
    token_requester_principal_name: str = wire(STRING, "3+")
    issue_timestamp_ms: int = wire(INT64, "0+")
    expiry_timestamp_ms: int = wire(INT64, "0+")
    max_timestamp_ms: int = wire(INT64, "0+")
    token_id: str = wire(STRING, "0+")
    hmac: bytes = wire(BYTES, "0+")
    throttle_time_ms: int = wire(INT32, "0+")


@message(key=39, versions="1-2", flexible="2+")
class RenewDelegationTokenRequest(Message):
    """Let a token live longer."""

    hmac: bytes = wire(BYTES, "0+")
    renew_period_ms: int = wire(INT64, "0+")


@message(key=39, versions="1-2", flexible="2+")
class RenewDelegationTokenResponse(Message):
    """The time at which the token expires now."""

    error_code: int = wire(INT16, "0+")
    expiry_timestamp_ms: int = wire(INT64, "0+")
    throttle_time_ms: int = wire(INT32, "0+")


@message(key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenRequest(Message):
    """Let a token expire earlier, or at once."""

    hmac: bytes = wire(BYTES, "0+")
    expiry_time_period_ms: int = wire(INT64, "0+")


@message(key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenResponse(Message):
    """The time at which the token expires now."""

    error_code: int = wire(INT16, "0+")
    expiry_timestamp_ms: int = wire(INT64, "0+")
    throttle_time_ms: int = wire(INT32, "0+")


class DescribeDelegationTokenRequestOwner(Message):
    """An owner of tokens."""

    principal_type: str = wire(STRING, "0+")
    principal_name: str = wire(STRING, "0+")


@message(key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenRequest(Message):
    """Ask for the tokens of owners; null for all."""

    owners: list[DescribeDelegationTokenRequestOwner] | None = wire(
        array(DescribeDelegationTokenRequestOwner), "0+", nullable="0+"
    )


class DescribeDelegationTokenResponseRenewer(Message):
    """A principal that may renew the token."""

    principal_type: str = wire(STRING, "0+")
    principal_name: str = wire(STRING, "0+")


class DescribeDelegationTokenResponseToken(Message):
    """A token."""

    principal_type: str = wire(STRING, "0+")
    principal_name: str = wire(STRING, "0+")
    token_requester_principal_type: str = wire(STRING, "3+")
    token_requester_principal_name: str = wire(STRING, "3+")
    issue_timestamp: int = wire(INT64, "0+")
    expiry_timestamp: int = wire(INT64, "0+")
    max_timestamp: int = wire(INT64, "0+")
    token_id: str = wire(STRING, "0+")
    hmac: bytes = wire(BYTES, "0+")
    renewers: list[DescribeDelegationTokenResponseRenewer] = wire(array(DescribeDelegationTokenResponseRenewer), "0+")


@message(key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenResponse(Message):
    """The tokens that the client may see."""

    error_code: int = wire(INT16, "0+")
    tokens: list[DescribeDelegationTokenResponseToken] = wire(array(DescribeDelegationTokenResponseToken), "0+")
    throttle_time_ms: int = wire(INT32, "0+")
