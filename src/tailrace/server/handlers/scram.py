"""DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554).

The request carries the salted password, and the broker derives the keys that it stores. It never sees the password.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress

from tailrace.base.frames import without_frames
from tailrace.base.security_limits import SCRAM_SALT_BYTES_MAX, USER_NAME_LENGTH_MAX
from tailrace.machines.controller.entity import entity_name, parse_entity_name
from tailrace.machines.controller.image import ClusterImage
from tailrace.machines.controller.record import ConfigKind
from tailrace.protocol.errors import ApiError, ErrorCode
from tailrace.protocol.messages.scram import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestDeletion,
    AlterUserScramCredentialsRequestUpsertion,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResponseResult,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResponseCredential,
    DescribeUserScramCredentialsResponseResult,
)
from tailrace.security.scram.credential import (
    Credential,
    InvalidCredential,
    credential_from_salted,
    format_credential,
    parse_credential,
)
from tailrace.security.scram.mechanism import ITERATIONS_MAX, ITERATIONS_MIN, SCRAM_MECHANISMS, Mechanism
from tailrace.server.api import api
from tailrace.server.context import CLUSTER_NAME, Operation, RequestContext, Resource

_BY_CODE = {mechanism.code: mechanism for mechanism in SCRAM_MECHANISMS.values()}

Alteration = AlterUserScramCredentialsRequestDeletion | AlterUserScramCredentialsRequestUpsertion

# --- DescribeUserScramCredentials


def fail_describe(
    ctx: RequestContext, request: DescribeUserScramCredentialsRequest, error: ApiError
) -> DescribeUserScramCredentialsResponse:
    # As in Kafka, the error is repeated for each user, whose name is left out.
    result = DescribeUserScramCredentialsResponseResult(error_code=error.code, error_message=error.message)
    return DescribeUserScramCredentialsResponse(
        error_code=error.code, error_message=error.message, results=[result] * len(request.users or ())
    )


@api(DescribeUserScramCredentialsRequest, versions=(0, 0), fail=fail_describe)
async def describe_user_scram_credentials(
    ctx: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """List the mechanisms and iterations of each user, or of all users that have credentials."""
    if not ctx.is_allowed(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    image = ctx.broker.image
    counts = Counter(user.name for user in request.users) if request.users else Counter(_users(image))
    results = [_describe(user, count, _credentials(image, user)) for user, count in counts.items()]
    return DescribeUserScramCredentialsResponse(results=results)


def _users(image: ClusterImage) -> Iterable[str]:
    for name in image.configured(ConfigKind.USER):
        user = parse_entity_name(name)[0]
        if user is not None and _credentials(image, user):
            yield user


def _credentials(image: ClusterImage, user: str) -> dict[Mechanism, Credential]:
    """Return the credentials of a user. One that cannot be read cannot log in either, and does not count."""
    configs = image.config(ConfigKind.USER, entity_name(user))
    found = {}
    for name, mechanism in SCRAM_MECHANISMS.items():
        with suppress(InvalidCredential):
            if name in configs:
                found[mechanism] = parse_credential(configs[name])
    return found


def _describe(
    user: str, count: int, credentials: Mapping[Mechanism, Credential]
) -> DescribeUserScramCredentialsResponseResult:
    if count > 1:
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        return _not_described(user, ApiError(ErrorCode.DUPLICATE_RESOURCE, message))
    if not credentials:
        message = f"Attempt to describe a user credential that does not exist: {user}"
        return _not_described(user, ApiError(ErrorCode.RESOURCE_NOT_FOUND, message))
    infos = [
        DescribeUserScramCredentialsResponseCredential(mechanism=mechanism.code, iterations=credential.iterations)
        for mechanism, credential in credentials.items()
    ]
    return DescribeUserScramCredentialsResponseResult(user=user, credential_infos=infos)


def _not_described(user: str, error: ApiError) -> DescribeUserScramCredentialsResponseResult:
    return DescribeUserScramCredentialsResponseResult(user=user, error_code=error.code, error_message=error.message)


# --- AlterUserScramCredentials


def fail_alter(
    ctx: RequestContext, request: AlterUserScramCredentialsRequest, error: ApiError
) -> AlterUserScramCredentialsResponse:
    return _altered({alteration.name: error for alteration in _alterations(request)})


@api(AlterUserScramCredentialsRequest, versions=(0, 0), fail=fail_alter)
async def alter_user_scram_credentials(
    ctx: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Remove and set credentials, one of each user. As in Kafka, users that are named twice are not changed."""
    if not ctx.is_allowed(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    alterations = _alterations(request)
    counts = Counter(alteration.name for alteration in alterations)
    outcomes: dict[str, ApiError | None] = {}
    for alteration in alterations:
        if alteration.name not in outcomes:
            outcomes[alteration.name] = await _alter(ctx, alteration, counts[alteration.name])
    return _altered(outcomes)


def _alterations(request: AlterUserScramCredentialsRequest) -> list[Alteration]:
    return [*request.deletions, *request.upsertions]


async def _alter(ctx: RequestContext, asked: Alteration, count: int) -> ApiError | None:
    name = entity_name(asked.name)
    try:
        mechanism = _mechanism(asked)
        value = _value(mechanism, asked) if isinstance(asked, AlterUserScramCredentialsRequestUpsertion) else None

        def change(current: Mapping[str, str]) -> Mapping[str, str]:
            if value is not None:
                return {**current, mechanism.name: value}
            if mechanism.name not in current:
                message = "Attempt to delete a user credential that does not exist"
                raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, message)
            return {name: kept for name, kept in current.items() if name != mechanism.name}

        change(ctx.broker.image.config(ConfigKind.USER, name))
        if count > 1:
            message = "A user credential cannot be altered twice in the same request"
            raise ApiError(ErrorCode.DUPLICATE_RESOURCE, message)
        await ctx.broker.controller.write_config(ConfigKind.USER, name, change, validate_only=False)
    except ApiError as error:
        return without_frames(error)
    return None


def _mechanism(asked: Alteration) -> Mechanism:
    """Return the mechanism that a request names; raise `ApiError` if this or the name of the user is not valid."""
    if not asked.name:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if len(asked.name) > USER_NAME_LENGTH_MAX:
        message = f"Username must not be longer than {USER_NAME_LENGTH_MAX} characters"
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)
    mechanism = _BY_CODE.get(asked.mechanism)
    if mechanism is None:
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return mechanism


def _value(mechanism: Mechanism, asked: AlterUserScramCredentialsRequestUpsertion) -> str:
    """Return the text of the credential that is stored; raise `ApiError` if it is not acceptable."""
    reason = ""
    if asked.iterations < ITERATIONS_MIN:
        reason = "Too few iterations"
    elif asked.iterations > ITERATIONS_MAX:
        reason = "Too many iterations"
    elif len(asked.salt) > SCRAM_SALT_BYTES_MAX:
        reason = f"The salt must not be longer than {SCRAM_SALT_BYTES_MAX} bytes"
    if reason:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, reason)
    try:
        return format_credential(credential_from_salted(mechanism, asked.salted_password, asked.salt, asked.iterations))
    except InvalidCredential as error:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, str(error)) from error


def _altered(outcomes: Mapping[str, ApiError | None]) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResponseResult(
                user=user,
                error_code=error.code if error else ErrorCode.NONE,
                error_message=error.message if error else None,
            )
            for user, error in outcomes.items()
        ]
    )
