"""The names under which the dynamic configs of users, clients, pairs of them and addresses are stored.

A config record names such an entity by one text: each part percent-encoded, as Kafka does in ZooKeeper, and the parts
of a pair separated by a slash. The default entity of a kind is `<default>`, which no encoded name equals.

    entity_name("alice")          alice
    entity_name("a/b", None)      a%2Fb/<default>
"""

from urllib.parse import quote, unquote

_DEFAULT = "<default>"


def entity_name(*parts: str | None) -> str:
    """Return the name of an entity, None being the default one: a user, client or address, or a user and a client."""
    return "/".join(_DEFAULT if part is None else encode_name(part) for part in parts)


def parse_entity_name(name: str) -> tuple[str | None, ...]:
    """Return the parts of the name of an entity."""
    return tuple(None if part == _DEFAULT else unquote(part) for part in name.split("/"))


def encode_name(name: str) -> str:
    """Return a name without the characters that have a meaning in a path; ZooKeeper rejects `.` and `..` too."""
    return name.replace(".", "%2E") if name in {".", ".."} else quote(name, safe="")


def decode_name(text: str) -> str:
    """Return the name that was encoded."""
    return unquote(text)
