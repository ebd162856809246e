"""`tailrace registry start`, and `tailrace connect start`, with options that are wrong."""

import sys
from pathlib import Path

import pytest
from click import Group
from click.testing import CliRunner

from tailrace.cli.connect import connect
from tailrace.cli.registry import registry


def test_a_ca_that_is_not_valid_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("none")
    result = CliRunner().invoke(registry, ["start", "--listen", "127.0.0.1:0", "--ca", str(tmp_path / "ca.pem")])
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert "ca.pem" in result.output


def test_packages_that_are_missing_are_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint named a command that installs from PyPI, where Tailrace is not yet."""
    for name in [name for name in sys.modules if name.startswith("tailrace.registry")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    result = CliRunner().invoke(registry, ["start"])
    assert result.exit_code == 1
    assert "install the extra tailrace[registry]" in result.output
    assert "pip" not in result.output


@pytest.mark.parametrize("command", [registry, connect])
def test_users_of_the_cluster_need_a_listener_with_logins(command: Group) -> None:
    result = CliRunner().invoke(command, ["start", "--listen", "127.0.0.1:0", "--cluster-users"])
    assert result.exit_code == 1
    assert "security.protocol: users of the cluster need a listener with logins" in result.output


@pytest.mark.parametrize("command", [registry, connect])
def test_users_are_those_of_a_file_or_of_the_cluster(command: Group, tmp_path: Path) -> None:
    (tmp_path / "users").write_text("ann:secret")
    result = CliRunner().invoke(command, ["start", "--users", str(tmp_path / "users"), "--cluster-users"])
    assert result.exit_code == 2
    assert "--users and --cluster-users exclude each other" in result.output
