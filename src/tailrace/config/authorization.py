"""Broker options of access control."""

from tailrace.config.check import Check
from tailrace.config.declaration import boolean, string
from tailrace.config.option import Importance

_CLASSES = (
    "",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)


class AuthorizationOptions:
    """The options of access control."""

    authorizer_class_name = string(
        "authorizer.class.name",
        "",
        "The authorizer, which decides what users may do. If it is empty, every user may do everything. Kafka's class "
        "`org.apache.kafka.metadata.authorizer.StandardAuthorizer` means Tailrace's ACLs.",
        check=Check(
            "empty or " + _CLASSES[1],
            lambda name: name in _CLASSES,
            lambda _: f"Tailrace does not load Java classes; it must be empty or {_CLASSES[1]}",
        ),
        importance=Importance.LOW,
    )
    super_users = string(
        "super.users",
        "",
        "Users that may do everything, as `User:NAME`, with semicolons between them.",
        check=Check("TYPE:NAME;TYPE:NAME…", lambda text: all(":" in part for part in text.split(";") if part.strip())),
        importance=Importance.LOW,
    )
    allow_everyone_if_no_acl_found = boolean(
        "allow.everyone.if.no.acl.found",
        False,
        "Whether every user may use a resource that has no ACL. Brokers need an ACL for CLUSTER_ACTION on the cluster, "
        "or an entry in `super.users`, to forward requests of clients, whatever this says.",
        importance=Importance.LOW,
    )
