"""`tailrace schema`, in a pipe, with Tailrace's registry."""

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.certificate import make_certificate

from tailrace.testing import Broker, SchemaRegistry

Run = Callable[..., tuple[int, str, str]]

VIEW = '{"type":"record","name":"View","fields":[{"name":"user","type":"long"}]}'
BROKEN = '{"type":"record","name":"View","fields":[{"name":"user","type":"long"},{"name":"page","type":"string"}]}'


@pytest.fixture(scope="module")
def registry_url(tailrace_session_broker: Broker) -> Iterator[str]:
    with SchemaRegistry(tailrace_session_broker.bootstrap_servers, topic="_schemas_of_commands") as registry:
        yield registry.url


@pytest.fixture
def schemas(run: Run, registry_url: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("TAILRACE_REGISTRY_URL", registry_url)
    return run


@pytest.fixture
def subject() -> str:
    return f"views-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "view.avsc"
    path.write_text(VIEW)
    return path


def test_a_schema_from_file_to_subject_and_back(schemas: Run, subject: str, file: Path) -> None:
    status, output, _ = schemas("schema", "register", subject, str(file))
    assert (status, output) == (0, f"registered {file} as {subject} version 1 with id {output.split()[-1]}\n")
    number = output.split()[-1]
    assert subject in schemas("schema", "list")[1].splitlines()
    assert schemas("schema", "list", "--prefix", subject, "--json")[1] == json.dumps([{"name": subject}]) + "\n"
    assert schemas("schema", "show", subject) == schemas("schema", "show", "--id", number) == (0, VIEW + "\n", "")
    assert schemas("schema", "show", subject, "--version", "1")[1] == VIEW + "\n"
    assert json.loads(schemas("schema", "show", subject, "--json")[1]) == {
        "subject": subject,
        "version": 1,
        "id": int(number),
        "type": "AVRO",
        "schema": VIEW,
        "references": [],
        "versions": [1],
    }


def test_registering_again_finds_the_version(schemas: Run, subject: str, file: Path) -> None:
    first = json.loads(schemas("schema", "register", subject, str(file), "--json")[1])
    assert json.loads(schemas("schema", "register", subject, str(file), "--json")[1]) == first
    assert (first["subject"], first["version"], first["type"]) == (subject, 1, "AVRO")


def test_references_and_types(schemas: Run, subject: str, tmp_path: Path) -> None:
    part, whole = tmp_path / "part.proto", tmp_path / "whole.txt"
    part.write_text('syntax = "proto3"; package p; message Part {}')
    whole.write_text('syntax = "proto3"; import "part.proto"; message Whole { p.Part part = 1; }')
    assert schemas("schema", "register", f"{subject}-part", str(part))[0] == 0
    status, _, complaint = schemas("schema", "register", subject, str(whole))
    assert (status, "set --type" in complaint) == (2, True)
    named = ("--type", "protobuf", "--reference", f"part.proto={subject}-part:1")
    assert schemas("schema", "register", subject, str(whole), *named)[0] == 0
    found = json.loads(schemas("schema", "show", subject, "--json")[1])
    assert found["references"] == [{"name": "part.proto", "subject": f"{subject}-part", "version": 1}]
    status, _, complaint = schemas("schema", "register", subject, str(whole), "--reference", "part.proto")
    assert (status, "is not NAME=SUBJECT:VERSION" in complaint) == (2, True)


def test_a_check_says_which_field_breaks_what(schemas: Run, subject: str, file: Path) -> None:
    schemas("schema", "register", subject, str(file))
    assert schemas("schema", "check", subject, str(file)) == (0, f"{file} is compatible with {subject}\n", "")
    file.write_text(BROKEN)
    status, output, complaint = schemas("schema", "check", subject, str(file))
    first, second = output.splitlines()
    assert (status, complaint) == (1, "")
    assert first == f"{file} is not compatible with {subject} version 1 (BACKWARD):"
    assert second.startswith("  Field 'page' of record 'View': it has no default value")
    assert second.endswith("(READER_FIELD_MISSING_DEFAULT_VALUE at /fields/1)")
    status, output, _ = schemas("schema", "check", subject, str(file), "--version", "1", "--json")
    said = json.loads(output)
    assert (status, said["compatible"], said["version"], said["level"]) == (1, False, 1, "BACKWARD")
    assert [problem["kind"] for problem in said["problems"]] == ["READER_FIELD_MISSING_DEFAULT_VALUE"]
    assert schemas("schema", "list", "--prefix", subject)[1] == f"{subject}\n"


def test_a_check_of_what_is_not_a_schema(schemas: Run, subject: str, file: Path) -> None:
    file.write_text('{"type": "recrod"}')
    status, output, _ = schemas("schema", "check", subject, str(file))
    assert (status, "recrod" in output) == (1, True)
    status, _, complaint = schemas("schema", "register", subject, str(file))
    assert (status, complaint.startswith(f"tailrace: {file}: "), "42201" in complaint) == (1, True, True)


def test_a_change_that_breaks_is_refused(schemas: Run, subject: str, file: Path) -> None:
    schemas("schema", "register", subject, str(file))
    file.write_text(BROKEN)
    status, _, complaint = schemas("schema", "register", subject, str(file))
    assert (status, "page" in complaint, "409" in complaint) == (1, True, True)


def test_a_config_is_shown_set_and_removed(schemas: Run, subject: str, file: Path) -> None:
    schemas("schema", "register", subject, str(file))
    assert "compatibilityLevel=BACKWARD" in schemas("schema", "config")[1].splitlines()
    assert "compatibilityLevel=FULL" in schemas("schema", "config", subject, "--level", "full")[1].splitlines()
    assert json.loads(schemas("schema", "config", subject, "--normalize", "--json")[1])["normalize"] is True
    assert "compatibilityLevel=BACKWARD" in schemas("schema", "config", subject, "--unset")[1].splitlines()
    assert schemas("schema", "config", subject, "--unset", "--level", "FULL")[0] == 2


def test_a_deletion_is_soft_at_first(schemas: Run, subject: str, file: Path) -> None:
    schemas("schema", "register", subject, str(file))
    assert schemas("schema", "delete", subject) == (0, f"deleted {subject} version 1\n", "")
    assert subject not in schemas("schema", "list")[1].splitlines()
    assert subject in schemas("schema", "list", "--deleted")[1].splitlines()
    assert schemas("schema", "delete", subject, "--permanent")[1] == f"deleted {subject} version 1 for good\n"
    assert schemas("schema", "delete", subject)[0] == 1
    assert schemas("schema", "delete", subject, "--if-exists") == (0, "", "")


def test_one_version_is_deleted(schemas: Run, subject: str, file: Path) -> None:
    schemas("schema", "register", subject, str(file))
    said = json.loads(schemas("schema", "delete", subject, "--version", "1", "--json")[1])
    assert said == {"subject": subject, "deleted": [1], "permanent": False}


def test_errors_name_the_thing_and_suggest_another(schemas: Run, subject: str, file: Path) -> None:
    schemas("schema", "register", subject, str(file))
    status, _, complaint = schemas("schema", "show", subject + "x")
    assert (status, f"did you mean {subject}?" in complaint) == (1, True)
    status, _, complaint = schemas("schema", "show", "--id", "999999", "--json")
    assert (status, "999999" in json.loads(complaint)["error"]) == (1, True)
    assert schemas("schema", "show")[0] == schemas("schema", "show", subject, "--id", "1")[0] == 2
    status, _, complaint = schemas("schema", "list", "--registry", "localhost")
    assert (status, "is not the URL of a registry" in complaint) == (2, True)


def test_the_connection_can_be_configured_in_a_file(
    run: Run, tailrace_session_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No option named a certificate, so a registry with one of a private authority could not be used."""
    monkeypatch.delenv("TAILRACE_REGISTRY_URL", raising=False)
    make_certificate(tmp_path, "authority", "DNS:authority")
    make_certificate(tmp_path, "registry", "IP:127.0.0.1", "authority")
    file = tmp_path / "registry.properties"
    with SchemaRegistry(
        tailrace_session_broker.bootstrap_servers,
        topic="_schemas_of_users",
        users={"ann": "secret"},
        certificate=tmp_path / "registry-ca.pem",
        key=tmp_path / "registry-key.pem",
    ) as registry:
        authority = tmp_path / "authority-ca.pem"
        file.write_text(f"url={registry.url}\nbasic.auth.user.info=ann:secret\nssl.ca.location={authority}\n")
        assert run("schema", "list", "--registry-config", str(file)) == (0, "", "")
        status, _, complaint = run("schema", "list", "--registry-config", str(file), "--registry-user", "ann:wrong")
        assert (status, "Unauthorized" in complaint) == (1, True)
    file.write_text("ssl.ca.locaton=x\n")
    status, _, complaint = run("schema", "list", "--registry-config", str(file))
    assert (status, "did you mean ssl.ca.location?" in complaint) == (2, True)


def test_no_registry_answers(schemas: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.schema.http.time.sleep", lambda _: None)
    status, _, complaint = schemas("schema", "list", "--registry", "http://127.0.0.1:1")
    assert (status, complaint) == (1, "tailrace: http://127.0.0.1:1: [Errno 111] Connection refused\n")


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (("schema", "register"), "unless SUBJECT already has it"),
        (("schema", "delete"), "The first deletion is soft: schemas can still be looked up by id."),
        (("schema", "config"), "of SUBJECT or, without SUBJECT, of the default context."),
        (("produce",), "Values have a schema in the registry; they are read and printed as JSON."),
        (("consume",), "Keys have a schema in the registry; they are read and printed as JSON."),
    ],
)
def test_the_help_says_what_happens(run: Run, command: tuple[str, ...], sentence: str) -> None:
    """The sentences were too short to be understood: "unless it has it", "its ids stay known"."""
    assert sentence in " ".join(run(*command, "--help")[1].split())
