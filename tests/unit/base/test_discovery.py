"""Modules are found in the folder of their package."""

import sys
from pathlib import Path

import pytest

from tailrace.base.discovery import import_modules
from tailrace.protocol import messages
from tailrace.protocol.registry import FAMILIES
from tailrace.server import handlers


def test_modules_are_imported_in_the_order_of_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "found_package"
    (package / "folder").mkdir(parents=True)
    for name in ("__init__.py", "second.py", "first.py", "folder/__init__.py"):
        (package / name).write_text(f"NAME = {name!r}\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = import_modules("found_package", [str(package)])
    for name in [name for name in sys.modules if name.startswith("found_package")]:
        monkeypatch.delitem(sys.modules, name)
    assert [module.NAME for module in found] == ["first.py", "second.py"]


def test_no_family_of_messages_and_no_handler_is_left_out() -> None:
    assert len(FAMILIES) == len(list(Path(messages.__path__[0]).glob("[!_]*.py")))
    modules = {f"{handlers.__name__}.{path.stem}" for path in Path(handlers.__path__[0]).glob("[!_]*.py")}
    assert modules <= sys.modules.keys()
