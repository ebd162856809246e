"""The answers of validation, and the names of plugins."""

import pytest

from tailrace.connect.plugin.base import Definition, Kind, Type
from tailrace.connect.plugin.connector_setting import all_definitions
from tailrace.connect.plugin.error import ConfigError
from tailrace.connect.plugin.known import PLUGINS, find_plugin
from tailrace.connect.plugin.setting import InvalidValue, parse_value
from tailrace.connect.plugin.translation import translate
from tailrace.connect.plugin.validation import validate

SINK = {"connector.class": "FileStreamSink", "name": "out", "file": "out.txt", "topics": "t"}


@pytest.mark.parametrize(
    "name",
    ["org.apache.kafka.connect.file.FileStreamSinkConnector", "FileStreamSinkConnector", "FileStreamSink"],
)
def test_a_plugin_is_found_by_its_class_or_an_alias(name: str) -> None:
    assert find_plugin(name).class_name == "org.apache.kafka.connect.file.FileStreamSinkConnector"


def test_an_unknown_plugin_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError) as error:
        find_plugin("Mongo")
    assert str(error.value).startswith(
        "Failed to find any class that implements Connector and which name matches Mongo, available connectors are: "
    )
    assert all(plugin.class_name in str(error.value) for plugin in PLUGINS)
    with pytest.raises(ConfigError, match=r"connector\.class"):
        translate("out", {})


def test_a_valid_configuration_has_no_errors() -> None:
    found = validate(find_plugin("FileStreamSink"), SINK).to_json()
    assert (found["name"], found["error_count"]) == ("FileStreamSink", 0)
    assert found["groups"] == ["Common", "Transforms", "Predicates", "Error Handling"]
    by_name = {each["value"]["name"]: each for each in found["configs"]}
    assert by_name["tasks.max"] == {
        "definition": {
            "name": "tasks.max",
            "type": "INT",
            "required": False,
            "default_value": "1",
            "importance": "HIGH",
            "documentation": "A connector has one task, whose work Spark divides by partitions and cores.",
            "group": "Common",
            "width": "SHORT",
            "display_name": "Tasks max",
            "dependents": [],
            "order_in_group": 4,
        },
        "value": {"name": "tasks.max", "value": "1", "recommended_values": [], "errors": [], "visible": True},
    }
    assert by_name["file"]["definition"]["group"] is None
    assert by_name["topics"]["value"]["value"] == "t"


def test_the_converters_of_the_worker_are_the_default() -> None:
    worker = {"value.converter": "org.apache.kafka.connect.storage.StringConverter", "name": "no connector"}
    found = validate(find_plugin("FileStreamSink"), SINK, worker)
    by_name = {each["value"]["name"]: each for each in found.configs}
    assert by_name["value.converter"]["definition"]["default_value"] == worker["value.converter"]
    assert by_name["value.converter"]["value"]["value"] == worker["value.converter"]
    assert by_name["name"]["definition"]["default_value"] is None
    refused = validate(find_plugin("FileStreamSink"), SINK | {"connector.plugin.version": "1.0"})
    assert refused.error_count == 1


def test_errors_stand_by_the_settings_that_they_are_about() -> None:
    config = {"connector.class": "FileStreamSink", "topics": "t", "tasks.max": "many", "speed": "9", "file": None}
    found = validate(find_plugin("FileStreamSink"), config)
    errors = {each["value"]["name"]: each["value"]["errors"] for each in found.configs if each["value"]["errors"]}
    assert errors["name"] == ['Missing required configuration "name" which has no default value.']
    assert errors["tasks.max"] == ["Invalid value many for configuration tasks.max: Not a number of type INT"]
    assert errors["speed"] == ["this setting is not known; remove it, or correct its name"]
    assert "Null value can not be supplied as the configuration value." in errors["file"]
    assert found.error_count == sum(map(len, errors.values())) == len(found.errors)
    assert [each["definition"] for each in found.configs if each["value"]["name"] == "speed"] == [None]


def test_passwords_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "very-secret")
    config = {
        "connector.class": "JdbcSink",
        "name": "out",
        "topics": "orders",
        "connection.url": "jdbc:postgresql://host:5432/shop?loglevel=2&password=very-secret",
        "connection.user": "anna",
        "connection.password": "very-secret",
        "tailrace.schema": "id bigint",
        "max.retries": "${env:SHOP_PASSWORD}",
    }
    answer = str(validate(find_plugin("JdbcSink"), config).to_json())
    hidden = {
        each["value"]["name"]: each["value"]["value"] for each in validate(find_plugin("JdbcSink"), config).configs
    }
    assert hidden["connection.password"] == "[hidden]"
    assert answer.count("very-secret") == 1, "only in the URL, as it was given"
    with pytest.raises(ConfigError) as error:
        translate("out", config)
    assert "very-secret" not in str(error.value)
    assert "${env:SHOP_PASSWORD}" in str(error.value)


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.simple_name)
def test_definitions_have_a_name_and_a_text_each(plugin: object) -> None:
    definitions = all_definitions(plugin)  # type: ignore[arg-type]
    names = [definition.name for definition in definitions]
    assert len(set(names)) == len(names)
    assert all(definition.documentation for definition in definitions)


def test_there_are_four_plugins_of_each_kind() -> None:
    assert [plugin.kind for plugin in PLUGINS].count(Kind.SOURCE) == 4
    assert [plugin.kind for plugin in PLUGINS].count(Kind.SINK) == 4


@pytest.mark.timeout(60)
def test_blanks_between_the_items_of_a_list_are_read_in_one_pass() -> None:
    """A run of blanks without a comma was read again from each of them: this text took hours."""
    definition = Definition("names", Type.LIST)
    assert parse_value(definition, "a" + " " * 2_000_000 + "b")[0].startswith("a ")
    assert parse_value(definition, " a ,\t\u2003b,, c ") == ["a", "b", "", "c"]


def test_a_number_of_too_many_digits_is_invalid() -> None:
    """Python converts no text of more than 4,300 digits, which was an internal error."""
    with pytest.raises(InvalidValue, match="Not a number of type INT"):
        parse_value(Definition("n", Type.INT), "1" * 5_000)
    assert parse_value(Definition("n", Type.INT), "0" * 50 + "7") == 7
