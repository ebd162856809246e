"""The configuration page is what the declarations say."""

from pathlib import Path

from tailrace.config.broker import broker_options
from tailrace.config.document import main, render
from tailrace.config.refusal import BROKER_REFUSAL_PREFIXES, BROKER_REFUSALS, TOPIC_REFUSALS
from tailrace.config.topic import TopicConfig

PAGE = Path(__file__).parents[3] / "docs" / "CONFIGURATION.md"


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run: python -m tailrace.config.document docs/CONFIGURATION.md"


def test_the_page_names_everything() -> None:
    names = [*broker_options(), *TopicConfig.options, *BROKER_REFUSALS, *TOPIC_REFUSALS]
    names += [f"{prefix}*" for prefix in BROKER_REFUSAL_PREFIXES]
    page = render()
    assert [name for name in names if f"| `{name}` |" not in page] == []


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    main([str(tmp_path / "page.md")])
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == render()


def test_no_row_is_torn() -> None:
    rows = [line for line in render().splitlines() if line.startswith("|")]
    assert len(rows) > len(broker_options())
    assert [row for row in rows if not row.endswith(" |") or row.count(" | ") not in (1, 2, 6)] == []


def test_no_option_is_both_accepted_and_refused() -> None:
    assert not set(broker_options()) & set(BROKER_REFUSALS)
    assert not set(TopicConfig.options) & set(TOPIC_REFUSALS)
