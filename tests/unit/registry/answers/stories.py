"""Every story, by name."""

from tests.unit.registry.answers.call import STORIES
from tests.unit.registry.answers.story import (
    annotation,
    bad_input,
    compatibility,
    config,
    context,
    deletion,
    mode,
    referring,
    registration,
    text,
)

__all__ = [
    "STORIES",
    "annotation",
    "bad_input",
    "compatibility",
    "config",
    "context",
    "deletion",
    "mode",
    "referring",
    "registration",
    "text",
]
