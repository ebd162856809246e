"""Every question, by name."""

from tests.clients.ask import config, fetch, frame, offset, produce, sequence, topic
from tests.clients.ask.asker import QUESTIONS, Asker

__all__ = ["QUESTIONS", "Asker", "config", "fetch", "frame", "offset", "produce", "sequence", "topic"]
