"""Sensible requests to the APIs of security, quotas and log folders."""

from tests.unit.server.handlers.sensible_about import About, builds

from tailrace.protocol.api_key import ApiKey
from tailrace.protocol.frame import encode_request
from tailrace.protocol.message import Message
from tailrace.protocol.messages import acl, client_quota, delegation_token, envelope, replica_log_dir, sasl, scram
from tailrace.protocol.messages.reassignment import ElectLeadersRequest
from tailrace.protocol.principal import encode_principal

ANY, LITERAL, READ, ALLOW, TOPIC = 1, 3, 3, 3, 2


@builds(ApiKey.SASL_HANDSHAKE)
def _sasl_handshake(_about: About) -> Message:
    return sasl.SaslHandshakeRequest(mechanism="PLAIN")


@builds(ApiKey.SASL_AUTHENTICATE)
def _sasl_authenticate(_about: About) -> Message:
    return sasl.SaslAuthenticateRequest(auth_bytes=b"\0user\0password")


@builds(ApiKey.ENVELOPE)
def _envelope(_about: About) -> Message:
    frame = b"".join(encode_request(1, "client", ElectLeadersRequest(topic_partitions=[]), 2))
    return envelope.EnvelopeRequest(
        request_data=frame[4:],
        request_principal=encode_principal("User:client", is_token_authenticated=False),
        client_host_address=bytes((127, 0, 0, 1)),
    )


@builds(ApiKey.DESCRIBE_ACLS)
def _describe_acls(_about: About) -> Message:
    return acl.DescribeAclsRequest(
        resource_type_filter=ANY, pattern_type_filter=ANY, operation=ANY, permission_type=ANY
    )


@builds(ApiKey.CREATE_ACLS)
def _create_acls(about: About) -> Message:
    creation = acl.CreateAclsRequestCreation(
        resource_type=TOPIC,
        resource_name=about.name,
        principal="User:a",
        host="*",
        operation=READ,
        permission_type=ALLOW,
    )
    return acl.CreateAclsRequest(creations=[creation])


@builds(ApiKey.DELETE_ACLS)
def _delete_acls(_about: About) -> Message:
    matching = acl.DeleteAclsRequestFilter(
        resource_type_filter=ANY, pattern_type_filter=ANY, operation=ANY, permission_type=ANY
    )
    return acl.DeleteAclsRequest(filters=[matching])


@builds(ApiKey.CREATE_DELEGATION_TOKEN)
def _create_delegation_token(_about: About) -> Message:
    return delegation_token.CreateDelegationTokenRequest(max_lifetime_ms=-1)


@builds(ApiKey.RENEW_DELEGATION_TOKEN)
def _renew_delegation_token(_about: About) -> Message:
    return delegation_token.RenewDelegationTokenRequest(hmac=b"token", renew_period_ms=1000)


@builds(ApiKey.EXPIRE_DELEGATION_TOKEN)
def _expire_delegation_token(_about: About) -> Message:
    return delegation_token.ExpireDelegationTokenRequest(hmac=b"token", expiry_time_period_ms=-1)


@builds(ApiKey.DESCRIBE_DELEGATION_TOKEN)
def _describe_delegation_token(_about: About) -> Message:
    return delegation_token.DescribeDelegationTokenRequest(owners=None)


@builds(ApiKey.DESCRIBE_CLIENT_QUOTAS)
def _describe_client_quotas(_about: About) -> Message:
    component = client_quota.DescribeClientQuotasRequestComponent(entity_type="user", match_type=2, match=None)
    return client_quota.DescribeClientQuotasRequest(components=[component])


@builds(ApiKey.ALTER_CLIENT_QUOTAS)
def _alter_client_quotas(_about: About) -> Message:
    entity = client_quota.AlterClientQuotasRequestEntity(entity_type="user", entity_name="a")
    removal = client_quota.AlterClientQuotasRequestOp(key="producer_byte_rate", remove=True)
    return client_quota.AlterClientQuotasRequest(
        entries=[client_quota.AlterClientQuotasRequestEntry(entity=[entity], ops=[removal])]
    )


@builds(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
def _describe_user_scram_credentials(_about: About) -> Message:
    return scram.DescribeUserScramCredentialsRequest(users=[scram.DescribeUserScramCredentialsRequestUser(name="a")])


@builds(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
def _alter_user_scram_credentials(_about: About) -> Message:
    return scram.AlterUserScramCredentialsRequest(
        deletions=[scram.AlterUserScramCredentialsRequestDeletion(name="a", mechanism=1)]
    )


@builds(ApiKey.ALTER_REPLICA_LOG_DIRS)
def _alter_replica_log_dirs(about: About) -> Message:
    topic = replica_log_dir.AlterReplicaLogDirsRequestTopic(name=about.name, partitions=[0])
    return replica_log_dir.AlterReplicaLogDirsRequest(
        dirs=[replica_log_dir.AlterReplicaLogDirsRequestDir(path="/elsewhere", topics=[topic])]
    )
