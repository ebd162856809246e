"""The reasons for which ZooKeeper refuses a client, with what to do about them."""

from typing import Final

from kazoo import exceptions

REFUSED: Final = (
    exceptions.AuthFailedError,
    exceptions.InvalidACLError,
    exceptions.NoAuthError,
    exceptions.SessionClosedRequireSaslError,
)
LOGIN_OPTIONS: Final = "tailrace.zookeeper.sasl.jaas.config and tailrace.zookeeper.digest"


def explain_refusal(error: Exception, path: str | None = None) -> str:
    """Return the message for one of the errors in `REFUSED`, of a request about `path` if it is known."""
    place = "" if path is None else f" to {path}"
    if isinstance(error, exceptions.SessionClosedRequireSaslError):
        return "ZooKeeper requires clients to log in; set tailrace.zookeeper.sasl.jaas.config"
    if isinstance(error, exceptions.InvalidACLError):
        return (
            "ZooKeeper cannot restrict nodes to the user of this broker (zookeeper.set.acl): the login is missing, or "
            "its servers lack authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
        )
    return f"ZooKeeper denies access{place}: its nodes belong to another user; check {LOGIN_OPTIONS}"
