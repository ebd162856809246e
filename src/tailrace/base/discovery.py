"""Modules found in the folder of a package, so that no list has to name them."""

import pkgutil
from importlib import import_module
from types import ModuleType


def import_modules(package: str, path: list[str]) -> tuple[ModuleType, ...]:
    """Import every module of a package (its `__name__` and `__path__`) in the order of their names."""
    names = sorted(found.name for found in pkgutil.iter_modules(path) if not found.ispkg)
    return tuple(import_module(f"{package}.{name}") for name in names)
