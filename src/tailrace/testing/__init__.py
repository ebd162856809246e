"""A real broker inside the test process, with faults on demand.

    with tailrace.testing.Broker() as broker:
        my_service.run(bootstrap=broker.bootstrap_servers)

For pytest there is the fixture `tailrace_broker`. Names are imported on first use, because the pytest plugin is
loaded in every test run, also in those without a broker.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailrace.testing.broker import Broker
    from tailrace.testing.fault import Fault
    from tailrace.testing.registry import SchemaRegistry

__all__ = ["Broker", "Fault", "SchemaRegistry"]

_MODULES = {
    "Broker": "tailrace.testing.broker",
    "Fault": "tailrace.testing.fault",
    "SchemaRegistry": "tailrace.testing.registry",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
