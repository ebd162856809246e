"""Options that several commands share, and whose values reach a command as one object."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def option_group(parameter: str, make: Callable[..., object], *options: Decorator) -> Decorator:
    """Return a decorator that adds click's options, and passes what `make` returns for their values as `parameter`.

    The options have the names of the arguments of `make`, in any order; the help shows them in this one.
    """
    names = list(inspect.signature(make).parameters)

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def call(**values: Any) -> Any:
            own = {name: values.pop(name) for name in names}
            return command(**values, **{parameter: make(**own)})

        decorated: Callable[..., Any] = call
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate
