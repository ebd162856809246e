"""Names of the subjects under which the schemas of a topic are registered."""

from enum import StrEnum

from tailrace.schema.error import CodecError


class SubjectName(StrEnum):
    """How a subject is named: after the topic, after the record, or after both."""

    TOPIC = "topic"
    RECORD = "record"
    TOPIC_RECORD = "topic-record"

    @property
    def needs_record(self) -> bool:
        """Whether the name depends on the schema."""
        return self is not SubjectName.TOPIC

    def of(self, topic: str, record: str | None, *, is_key: bool) -> str:
        """Return the subject. A record has a full name if its schema gives it one."""
        if self is SubjectName.TOPIC:
            return f"{topic}-{'key' if is_key else 'value'}"
        if record is None:
            raise CodecError(f"the schema of topic {topic} has no name, which the subject name {self.value!r} needs")
        return record if self is SubjectName.RECORD else f"{topic}-{record}"
