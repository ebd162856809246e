"""Principals, as configs and ACLs write them: `TYPE:NAME`, such as `User:alice`."""


def parse_super_users(value: str) -> frozenset[str]:
    """Return the principals of the config `super.users`; raise ValueError if one has no type.

    Semicolons separate the principals, because the names of certificates contain commas.
    """
    principals = frozenset(text for part in value.split(";") if (text := part.strip()))
    if wrong := sorted(principal for principal in principals if ":" not in principal):
        raise ValueError(f'super.users: "{wrong[0]}" does not have the form TYPE:NAME, such as "User:{wrong[0]}"')
    return principals
