"""A small writer of Python source, for the functions that the codec compiles."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Source:
    """The body of one function, line by line, with the constants that it refers to."""

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
        """Add a header such as `if x:` and indent what follows."""
        self.line(header)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh_name(self, stem: str) -> str:
        """A name that no other line uses."""
        self._count += 1
        return f"{stem}{self._count}"

    def constant(self, stem: str, value: object) -> str:
        """Make a value known to the function, and return its name there."""
        name = self.fresh_name(stem)
        self.scope[name] = value
        return name

    def text(self, header: str) -> str:
        """The whole function."""
        return "\n".join([header, *self._lines, ""])

    def compile(self, header: str, name: str, title: str) -> Callable[..., Any]:
        """Compile the function whose first line is `header`; `title` stands in tracebacks."""
        code = compile(self.text(header), f"<{title}>", "exec")
        exec(code, self.scope)  # noqa: S102 — the source is made of our own declarations alone
        return self.scope[name]  # type: ignore[no-any-return]
