"""Credentials of users for SCRAM, read and changed (KIP-554)."""

from tailrace.protocol.message import Message, message, wire
from tailrace.protocol.primitive import BYTES, INT8, INT16, INT32, STRING, array


class DescribeUserScramCredentialsRequestUser(Message):
    """A user."""

    name: str = wire(STRING, "0+")


@message(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest(Message):
    """Ask which credentials users have; null or no users for all."""

    users: list[DescribeUserScramCredentialsRequestUser] | None = wire(
        array(DescribeUserScramCredentialsRequestUser), "0+", nullable="0+"
    )


class DescribeUserScramCredentialsResponseCredential(Message):
    """A credential, without its secret."""

    mechanism: int = wire(INT8, "0+")
    iterations: int = wire(INT32, "0+")


class DescribeUserScramCredentialsResponseResult(Message):
    """A user and its credentials."""

    user: str = wire(STRING, "0+")
    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+")
    credential_infos: list[DescribeUserScramCredentialsResponseCredential] = wire(
        array(DescribeUserScramCredentialsResponseCredential), "0+"
    )


@message(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse(Message):
    """The credentials of each user."""

    throttle_time_ms: int = wire(INT32, "0+")
    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+")
    results: list[DescribeUserScramCredentialsResponseResult] = wire(
        array(DescribeUserScramCredentialsResponseResult), "0+"
    )


class AlterUserScramCredentialsRequestDeletion(Message):
    """A credential to remove."""

    name: str = wire(STRING, "0+")
    mechanism: int = wire(INT8, "0+")


class AlterUserScramCredentialsRequestUpsertion(Message):
    """A credential to set."""

    name: str = wire(STRING, "0+")
    mechanism: int = wire(INT8, "0+")
    iterations: int = wire(INT32, "0+")
    salt: bytes = wire(BYTES, "0+")
    salted_password: bytes = wire(BYTES, "0+")


@message(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest(Message):
    """Remove and set credentials of users."""

    deletions: list[AlterUserScramCredentialsRequestDeletion] = wire(
        array(AlterUserScramCredentialsRequestDeletion), "0+"
    )
    upsertions: list[AlterUserScramCredentialsRequestUpsertion] = wire(
        array(AlterUserScramCredentialsRequestUpsertion), "0+"
    )


class AlterUserScramCredentialsResponseResult(Message):
    """The outcome for one user."""

    user: str = wire(STRING, "0+")
    error_code: int = wire(INT16, "0+")
    error_message: str | None = wire(STRING, "0+", nullable="0+")


@message(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse(Message):
    """The outcome for each user."""

    throttle_time_ms: int = wire(INT32, "0+")
    results: list[AlterUserScramCredentialsResponseResult] = wire(array(AlterUserScramCredentialsResponseResult), "0+")
