"""Subjects and the contexts that hold them.

A subject outside the default context is written `:.context:name`. `:.context:` alone means the context itself, and
`:*:name` means every context. Ids are counted separately in each context.
"""

from dataclasses import dataclass
from typing import Self

from tailrace.base.text import is_control

DEFAULT_CONTEXT = "."
GLOBAL_CONTEXT = ".__GLOBAL"
"""The context whose config and mode apply where neither the subject nor its context has one."""
EVERY_CONTEXT = "*"
RESERVED_NAMES = frozenset({"__GLOBAL", "__EMPTY"})

_CONTEXT_START = ":."
_EVERY_CONTEXT_START = ":*:"


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """The name of a subject, taken apart."""

    context: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the parts of a subject as clients write it."""
        if text.startswith(_EVERY_CONTEXT_START):
            return cls(EVERY_CONTEXT, text[len(_EVERY_CONTEXT_START) :])
        if not text.startswith(_CONTEXT_START):
            return cls(DEFAULT_CONTEXT, text)
        context, _, name = text[1:].partition(":")
        return cls(context, name)

    def __str__(self) -> str:
        return f"{context_prefix(self.context)}{self.name}"

    @property
    def is_qualified(self) -> bool:
        """Whether the subject names a context other than the default one."""
        return self.context != DEFAULT_CONTEXT

    @property
    def is_default_context(self) -> bool:
        """Whether this is the default context itself, which has no name of its own."""
        return self == Subject(DEFAULT_CONTEXT, "")


def context_prefix(context: str) -> str:
    """Return what stands before the name of a subject in a context; nothing in the default context."""
    return "" if context == DEFAULT_CONTEXT else f":{context}:"


def normalize_context(text: str) -> str:
    """Return the prefix of a context that a client names with or without its dot and colons.

    Raises ValueError if the name has a colon inside.
    """
    name = text.removeprefix(":").removesuffix(":")
    if ":" in name:
        raise ValueError(f"context name {name!r} contains a colon")
    return context_prefix(name if name.startswith(".") else f".{name}")


def normalize(text: str) -> str:
    """Return a subject in the form in which the registry stores it."""
    return str(Subject.parse(text))


def context_of(text: str) -> str:
    """Return the context of a subject."""
    return Subject.parse(text).context


def qualify(text: str, parent: str) -> str:
    """Return the subject of a reference, which is in the context of the referring subject unless it names another."""
    subject = Subject.parse(text)
    above = context_of(parent)
    return str(subject if subject.is_qualified or above == DEFAULT_CONTEXT else Subject(above, text))


def is_valid(text: str, *, is_scope: bool = False) -> bool:
    """Return whether a subject may be registered, or, as a scope, have a config or a mode."""
    if any(is_control(letter) for letter in text):
        return False
    subject = Subject.parse(text)
    return subject.name not in RESERVED_NAMES and (is_scope or subject.context not in (GLOBAL_CONTEXT, EVERY_CONTEXT))
