"""Addresses of servers that a command is about to start."""

import socket

import click


def find_port(host: str, port: int = 0) -> int:
    """Return the port if a server can listen on it, or a free one for port 0; raises `OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        if port:
            # A server sets it too, so a port whose last connections have just closed counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        found: int = probe.getsockname()[1]
        return found


def parse_listen(listen: str) -> tuple[str, int]:
    """Return the host and the port of an option --listen, with a free port for 0."""
    host, _, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or int(port) > 65535:
        raise click.UsageError(f"--listen {listen} is not of the form HOST:PORT")
    try:
        # Without this check a server that listens there already would count as the started one.
        return host, find_port(host, int(port))
    except OSError as error:
        raise click.ClickException(
            f"cannot listen on {listen}: {error.strerror}; choose another port with --listen"
        ) from None
