"""The names of copied topics, made from a template such as `{source}.{topic}`. Pure."""

import re
from string import Formatter

from tailrace.base.topic_name import topic_name_problem
from tailrace.spark.mirror.error import MirrorError
from tailrace.spark.mirror.name import HEARTBEATS_TOPIC, MirrorName

SAME_NAME = "{topic}"
_FIELDS = ("source", "target", "topic")


class Renaming:
    """The names of the copies of one mirror.

    The names of heartbeats are those of MirrorMaker 2 under any template, because its clients look for them.
    """

    def __init__(self, template: str, name: MirrorName) -> None:
        """Raise `MirrorError` for a template from which topic names cannot be made."""
        self.template = template
        self._name = name
        _check(template)
        self._came_from_target = _pattern(template, MirrorName(name.target, name.source))

    @property
    def keeps_names(self) -> bool:
        """Whether copies have the names of their originals."""
        return self.template == SAME_NAME

    def apply(self, topic: str) -> str:
        """Return the name of the copy; raises `MirrorError` if it is not the name of a topic."""
        if topic == HEARTBEATS_TOPIC:
            return self._name.remote_heartbeats_topic
        copy = self.template.format(source=self._name.source, target=self._name.target, topic=topic)
        if problem := topic_name_problem(copy):
            raise MirrorError(f"--rename {self.template} gives topic {topic} the name {copy!r}: {problem}")
        return copy

    def came_from_target(self, topic: str) -> bool:
        """Return whether the name of a topic in the source cluster says that it is a copy of one in the target."""
        return self._came_from_target is not None and self._came_from_target.fullmatch(topic) is not None


def _check(template: str) -> None:
    try:
        fields = [field for _, field, _, _ in Formatter().parse(template) if field is not None]
    except ValueError as error:
        raise MirrorError(f"--rename {template!r} is not a template: {error}") from None
    for field in fields:
        if field not in _FIELDS:
            known = ", ".join(f"{{{name}}}" for name in _FIELDS)
            raise MirrorError(f"--rename {template!r} has the unknown field {{{field}}}; there are {known}")
    if fields.count("topic") != 1:
        raise MirrorError(f"--rename {template!r} must have {{topic}} once, such as {{source}}.{{topic}}")


def _pattern(template: str, reverse: MirrorName) -> re.Pattern[str] | None:
    """Return the pattern of copies that the mirror in the other direction makes; None if they keep their names."""
    if "{source}" not in template:
        return None
    values = {"source": re.escape(reverse.source), "target": re.escape(reverse.target), "topic": ".+"}
    parts = [
        re.escape(text) + (values[field] if field is not None else "")
        for text, field, _, _ in Formatter().parse(template)
    ]
    return re.compile("".join(parts))
