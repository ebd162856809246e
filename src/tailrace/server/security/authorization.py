"""The authorizer of a broker, which follows the ACLs in the cluster image."""

import logging
from collections.abc import Sequence

from tailrace.machines.authorization.authorizer import Authorizer
from tailrace.machines.authorization.principal import parse_super_users
from tailrace.machines.authorization.vocabulary import Operation, Resource
from tailrace.machines.controller.record import Record
from tailrace.machines.controller.security_record import AclPattern, AclRecord
from tailrace.runtime.broker import Broker

log = logging.getLogger("tailrace.server")


class Authorization:
    """The authorizer of a broker. It follows the ACLs of the cluster."""

    def __init__(self, broker: Broker) -> None:
        config = broker.config
        self._authorizer = Authorizer(
            super_users=parse_super_users(config.super_users),
            allow_everyone_if_no_acl_found=config.allow_everyone_if_no_acl_found,
        )
        self._records: dict[AclPattern, AclRecord] = {}
        self._follow(tuple(broker.image.acls.values()))
        broker.metadata.listen(self._follow)

    def is_allowed(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        """Whether a principal on a host may perform an operation on a resource."""
        return self._authorizer.authorize(principal, host, operation, resource, name)

    def is_granted(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        """Whether an ACL or `super.users` allows a principal an operation, and not just the lack of ACLs."""
        return self._authorizer.is_granted(principal, host, operation, resource, name)

    def is_allowed_somewhere(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        """Whether a principal may perform an operation on at least one resource of a type."""
        return self._authorizer.authorize_by_resource_type(principal, host, operation, resource)

    def _follow(self, records: Sequence[Record]) -> None:
        for record in records:
            if isinstance(record, AclRecord):
                self._replace(record)

    def _replace(self, record: AclRecord) -> None:
        before = self._records.pop(record.pattern, None)
        for binding in () if before is None else before.bindings():
            self._authorizer.remove(binding)
        for binding in record.bindings():
            self._authorizer.add(binding)
        if record.entries:
            self._records[record.pattern] = record


def make_authorization(broker: Broker) -> Authorization | None:
    """Return the authorizer that the options name; None if every client may do everything."""
    config = broker.config
    if not config.authorizer_class_name:
        return None
    if config.allow_everyone_if_no_acl_found and not config.super_users and config.zookeeper_connect is not None:
        log.warning(
            "super.users is empty: brokers forward requests to the controller only if an ACL allows them "
            "CLUSTER_ACTION on the cluster, whatever allow.everyone.if.no.acl.found says"
        )
    return Authorization(broker)
