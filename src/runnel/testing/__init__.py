"""A real broker inside the process that tests, with faults on demand.

    with runnel.testing.Broker() as broker:
        my_service.run(bootstrap=broker.bootstrap_servers)

With pytest it comes as the fixture `runnel_broker`. Names are imported when they are first
used, because the pytest plugin is loaded in every test run, also in those that need no broker.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runnel.testing.broker import Broker
    from runnel.testing.fault import Fault

__all__ = ["Broker", "Fault"]

_MODULES = {"Broker": "runnel.testing.broker", "Fault": "runnel.testing.fault"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
