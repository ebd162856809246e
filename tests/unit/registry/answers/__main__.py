"""Record or compare the answers of a registry, and record what it writes to its topic.

    python -m tests.unit.registry.answers record COMMAND [STORY…] > confluent_answers.json
    python -m tests.unit.registry.answers compare COMMAND [STORY…]
    python -m tests.unit.registry.answers log COMMAND BOOTSTRAP TOPIC [STORY…] > confluent_records.json
    python -m tests.unit.registry.answers tell URL STORY

COMMAND starts an empty registry and keeps it in the foreground. `{port}` in it stands for the port to listen on and
`{story}` for a word that is different each time, for the names of its topic and group; TOPIC is the name of the topic
with the same `{story}` in it. `record` and `log` with names take the other stories from the recorded ones. `tell`
compares the answers of a registry that runs already and is empty.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.unit.registry.answers import log
from tests.unit.registry.answers.call import get
from tests.unit.registry.answers.compare import RECORDS, differences, expected, recorded
from tests.unit.registry.answers.record import Answer, ask, tell
from tests.unit.registry.answers.run import started
from tests.unit.registry.answers.stories import STORIES


def _record(command: str, names: list[str]) -> None:
    stories: dict[str, dict[str, Answer]] = recorded()["stories"] if names else {}
    registry: dict[str, Any] = {}
    for name in names or STORIES:
        with started(command, name) as running:
            registry = ask(get("/v1/metadata/version"), running.url)["body"]
            stories[name] = tell(name, running.url)
        print(f"{name}: {len(stories[name])} answers", file=sys.stderr)
    print(_readable(registry, {name: _answer_lines(stories[name]) for name in STORIES}))


def _log(command: str, bootstrap: str, topic: str, *names: str) -> None:
    kept = json.loads(RECORDS.read_text())["stories"] if names else {}
    stories = {name: [_line(entry) for entry in entries] for name, entries in kept.items()}
    registry: dict[str, Any] = {}
    for name in names or STORIES:
        with started(command, name) as running:
            registry = ask(get("/v1/metadata/version"), running.url)["body"]
            tell(name, running.url)
            stories[name] = [_line(entry) for entry in log.read(bootstrap, topic.format(story=running.word))]
        print(f"{name}: {len(stories[name])} records", file=sys.stderr)
    print(_readable(registry, {name: stories[name] for name in STORIES}, "[", "]"))


def _answer_lines(answers: dict[str, Answer]) -> list[str]:
    return [f"{_line(title)}:\n        {_line(answer)}" for title, answer in answers.items()]


def _readable(registry: dict[str, Any], stories: dict[str, list[str]], opening: str = "{", closing: str = "}") -> str:
    """Return JSON in short lines, so that a change of one answer is easy to read."""
    told = [
        f"    {_line(name)}: {opening}\n" + ",\n".join(f"      {line}" for line in lines) + f"\n    {closing}"
        for name, lines in stories.items()
    ]
    return f'{{\n  "registry": {_line(registry)},\n  "stories": {{\n' + ",\n".join(told) + "\n  }\n}"


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _compare(command: str, names: list[str]) -> int:
    count = 0
    for name in names or STORIES:
        with started(command, name) as running:
            found = list(differences(expected(name), tell(name, running.url)))
        count += len(found)
        print("\n".join([f"{name}: {len(found)} of {len(expected(name))} answers differ", *found]), flush=True)
    return 1 if count else 0


def main() -> int:
    task, target, *rest = sys.argv[1:]
    if task == "record":
        _record(target, rest)
    elif task == "log":
        _log(target, *rest)
    elif task == "compare":
        return _compare(target, rest)
    else:
        print("\n".join(differences(expected(rest[0]), tell(rest[0], target))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
