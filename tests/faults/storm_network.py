"""Where the members of a cluster live: all on loopback, or each in a network namespace whose link can be cut."""

from __future__ import annotations

import os
import subprocess

from tests.port import free_port

BRIDGE = "rnl-storm"
_GATEWAY = "10.213.7.1"
_FIRST_HOST = 10
_NOBODY = "02:00:00:00:00:01"  # what is sent there is lost without a word


class Network:
    """Loopback. Nothing can be cut here."""

    can_cut = False

    def host(self, name: str) -> str:
        """The address of a member."""
        return "127.0.0.1"

    def port(self) -> int:
        """One that nobody has."""
        return free_port()

    def prefix(self, name: str) -> list[str]:
        """What to put before a command so that it runs where the member lives."""
        return []

    def cut(self, name: str, *, one_way: bool) -> None:
        raise NotImplementedError

    def heal(self, name: str) -> None:
        """Undo a cut, if there is one."""

    def close(self) -> None:
        """Leave nothing behind."""


class Namespaces(Network):
    """Each member in a namespace of its own, all on one bridge, on which the clients are, too."""

    can_cut = True

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self.close()
        _ip("link", "add", BRIDGE, "type", "bridge")
        _ip("addr", "add", f"{_GATEWAY}/24", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")

    def host(self, name: str) -> str:
        self._space(name)
        return f"10.213.7.{_FIRST_HOST + list(self._names).index(name)}"

    def prefix(self, name: str) -> list[str]:
        return ["ip", "netns", "exec", self._space(name)]

    def _space(self, name: str) -> str:
        if name in self._names:
            return self._names[name]
        number = len(self._names)
        space = self._names[name] = f"{BRIDGE}-{number}"
        _ip("netns", "add", space)
        _ip("link", "add", _link(number), "type", "veth", "peer", "name", "eth0", "netns", space)
        _ip("link", "set", _link(number), "master", BRIDGE, "up")
        for words in (("lo", "up"), ("eth0", "up")):
            _ip("-n", space, "link", "set", *words)
        _ip("-n", space, "addr", "add", f"10.213.7.{_FIRST_HOST + number}/24", "dev", "eth0")
        return space

    def cut(self, name: str, *, one_way: bool) -> None:
        """Nothing reaches the member and nothing leaves it; or with `one_way` nothing leaves it."""
        if not one_way:
            _ip("link", "set", self._link(name), "down")
            return
        for host in [_GATEWAY, *(self.host(other) for other in self._names if other != name)]:
            self._neighbour(name, "replace", host, "lladdr", _NOBODY, "nud", "permanent")

    def heal(self, name: str) -> None:
        _ip("link", "set", self._link(name), "up")
        _ip("-n", self._space(name), "neigh", "flush", "dev", "eth0", "nud", "permanent")

    def _neighbour(self, name: str, action: str, host: str, *words: str) -> None:
        _ip("-n", self._space(name), "neigh", action, host, *words, "dev", "eth0")

    def _link(self, name: str) -> str:
        return _link(list(self._names).index(name))

    def close(self) -> None:
        listed = _run("ip", "netns", "list", check=False).split("\n")
        for space in [line.split()[0] for line in listed if line.startswith(BRIDGE)]:
            _ip("netns", "del", space)
        _run("ip", "link", "del", BRIDGE, check=False)


def can_make_namespaces() -> bool:
    """Whether this process may, and has the tools."""
    if os.geteuid() != 0:
        return False
    probe = f"{BRIDGE}-probe"
    try:
        _ip("netns", "add", probe)
        _ip("netns", "del", probe)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _link(number: int) -> str:
    return f"rnl-{number}"


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*command: str, check: bool = True) -> str:
    return subprocess.run(command, check=check, capture_output=True, text=True).stdout
