"""Ask a broker everything: `python -m tests.clients.ask BOOTSTRAP [NAME…]` prints question and answer as JSON.

With no bootstrap address (`-`), real Apache Kafka is started for the purpose. This is how
`tests/clients/kafka_answers.json` is made:

    python -m tests.clients.ask - > tests/clients/kafka_answers.json
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

from bench.kafka import ApacheKafka
from tests.clients.ask.questions import QUESTIONS, Asker


def answers(bootstrap: str, names: list[str]) -> dict[str, Any]:
    """Every question in words with its answer, by name."""
    asker = Asker(bootstrap)
    chosen = names or list(QUESTIONS)
    return {name: {"question": QUESTIONS[name].__doc__, "answer": _attempt(name, asker)} for name in chosen}


def _attempt(name: str, asker: Asker) -> Any:
    try:
        return QUESTIONS[name](asker)
    except Exception as error:
        traceback.print_exc()
        return f"asking failed: {error!r}"


def main() -> None:
    bootstrap, names = sys.argv[1], sys.argv[2:]
    if bootstrap == "-":
        with ApacheKafka() as kafka:
            found = {"kafka_version": kafka.version, "answers": answers(kafka.bootstrap_servers, names)}
    else:
        found = {"answers": answers(bootstrap, names)}
    print(_readable(found))


def _readable(found: dict[str, Any]) -> str:
    """One line a question, so that a change of one answer is a change of one line."""
    lines = [
        f'    {json.dumps(name)}: {{\n      "question": {json.dumps(entry["question"])},\n'
        f'      "answer": {json.dumps(entry["answer"], default=str)}\n    }}'
        for name, entry in found["answers"].items()
    ]
    head = "".join(f'  "{name}": {json.dumps(value)},\n' for name, value in found.items() if name != "answers")
    return "{\n" + head + '  "answers": {\n' + ",\n".join(lines) + "\n  }\n}"


if __name__ == "__main__":
    main()
