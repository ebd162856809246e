"""A writer of Python source, for the functions that the codec compiles."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Source:
    """The body of one function, with the constants that it uses."""

    def __init__(self) -> None:
        self.scope: dict[str, Any] = {}
        self._lines: list[str] = []
        self._depth = 1
        self._count = 0

    def line(self, text: str) -> None:
        """Add a line at the current depth."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Add a header such as `if x:` and indent the lines of the block."""
        self.line(header)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh_name(self, stem: str) -> str:
        """Return an unused name."""
        self._count += 1
        return f"{stem}{self._count}"

    def constant(self, stem: str, value: object) -> str:
        """Add a constant to the function's scope, and return its name."""
        name = self.fresh_name(stem)
        self.scope[name] = value
        return name

    def text(self, header: str) -> str:
        """Return the source of the function."""
        return "\n".join([header, *self._lines, ""])

    def compile(self, header: str, name: str, title: str) -> Callable[..., Any]:
        """Compile the function with the first line `header`; tracebacks show `title`."""
        code = compile(self.text(header), f"<{title}>", "exec")
        exec(code, self.scope)  # noqa: S102  the source is generated from our own declarations only
        return self.scope[name]  # type: ignore[no-any-return]
