"""`tailrace schema`: list, show, register, check and delete schemas, and their compatibility configs."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrace.cli.option import json_option
from tailrace.cli.output import is_terminal, write_json, write_line
from tailrace.cli.registry_option import (
    LANGUAGES,
    choose_language,
    connected,
    read_references,
    read_schema,
    registry_options,
)

if TYPE_CHECKING:
    from tailrace.schema.language import Reference
    from tailrace.schema.registry import Registry
    from tailrace.schema.stored import NewSchema, StoredSchema

_LEVELS = ("NONE", "BACKWARD", "FORWARD", "FULL", "BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE", "FULL_TRANSITIVE")
_SUBJECT_NOT_FOUND = 40401
_NOT_FOUND = 404
_DIFFERENCE = re.compile(r"\{errorType: ?'(\w+)', description: ?'(.*)', additionalInfo: ?'(.*)'\}", re.DOTALL)
_OLD_VERSION = re.compile(r"\{oldSchemaVersion: ?(\d+)\}")
_LEVEL = re.compile(r"compatibility: ?'(\w+)'\}")

_FILE = click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
_TYPE = click.option(
    "--type", "language", type=click.Choice(LANGUAGES), help="Language of the schema.  [default: by the file's name]"
)
_REFERENCES = click.option(
    "--reference",
    "references",
    multiple=True,
    callback=read_references,
    metavar="NAME=SUBJECT:VERSION",
    help="Schema that this one refers to by NAME; can be repeated.",
)


@click.group()
def schema() -> None:
    """List, show, register, check and delete schemas."""


@schema.command("list")
@click.option("--prefix", default="", help="List only subjects whose names begin with this.")
@click.option("--deleted", is_flag=True, help="Include subjects that are softly deleted.")
@json_option
@registry_options
def list_subjects(prefix: str, deleted: bool, as_json: bool) -> None:
    """List all subjects."""
    with connected() as registry:
        names = registry.subjects(prefix, deleted=deleted)
    if as_json:
        write_json([{"name": name} for name in names])
        return
    for name in names:
        write_line(name)


@schema.command()
@click.argument("subject", required=False)
@click.option("--version", type=click.IntRange(min=1), help="Version of the subject.  [default: the latest]")
@click.option("--id", "schema_id", type=click.IntRange(min=1), help="Show the schema with this id.")
@json_option
@registry_options
def show(
    subject: str | None,
    version: int | None,
    schema_id: int | None,
    as_json: bool,
) -> None:
    """Print the schema of SUBJECT, or the one with an id."""
    if (subject is None) == (schema_id is None):
        raise click.UsageError("name either a SUBJECT or an --id")
    with connected() as registry:
        if subject is None or schema_id is not None:
            found, versions = registry.schema(schema_id or 0), None
        else:
            with _suggesting(registry, subject):
                found = registry.latest(subject) if version is None else registry.version(subject, version)
                versions = registry.versions(subject)
    if as_json:
        write_json(_description(found, versions))
        return
    if is_terminal():
        place = "" if found.subject is None else f"{found.subject} · version {found.version} · "
        write_line(f"{place}id {found.id} · {found.type}")
        for each in found.references:
            write_line(f"reference {each.name} = {each.subject}:{each.version}")
    write_line(_shown(found))


@schema.command()
@click.argument("subject")
@_FILE
@_TYPE
@_REFERENCES
@click.option("--normalize", is_flag=True, help="Register the normal form of the schema.")
@json_option
@registry_options
def register(
    subject: str,
    file: Path,
    language: str | None,
    references: "tuple[Reference, ...]",
    normalize: bool,
    as_json: bool,
) -> None:
    """Register the schema in FILE as the next version of SUBJECT, unless SUBJECT already has it."""
    new = _new_schema(file, language, references)
    with connected() as registry, _naming(file):
        stored = registry.register(subject, new, normalize=normalize)
        version = stored.version or registry.look_up(subject, new, normalize=normalize).version
    if as_json:
        write_json({"subject": subject, "version": version, "id": stored.id, "type": stored.type})
    else:
        write_line(f"registered {file} as {subject} version {version} with id {stored.id}")


@schema.command()
@click.argument("subject")
@_FILE
@_TYPE
@_REFERENCES
@click.option("--version", type=click.IntRange(min=1), help="Compare with this version alone.")
@json_option
@registry_options
@click.pass_context
def check(
    context: click.Context,
    subject: str,
    file: Path,
    language: str | None,
    references: "tuple[Reference, ...]",
    version: int | None,
    as_json: bool,
) -> None:
    """Say what would break if the schema in FILE were registered for SUBJECT; exit with 1 if anything would.

    Registers nothing. The compatibility level of the subject decides what counts and which versions are compared.
    """
    new = _new_schema(file, language, references)
    with connected() as registry, _naming(file):
        messages = registry.check(subject, new, version)
    problems = [_problem(message) for message in messages if _is_problem(message)]
    old = _first(_OLD_VERSION, messages)
    level = _first(_LEVEL, messages)
    if as_json:
        said: dict[str, Any] = {"subject": subject, "compatible": not messages, "problems": problems}
        write_json({**said, "version": None if old is None else int(old), "level": level} if messages else said)
    elif not messages:
        write_line(f"{file} is compatible with {subject}")
    else:
        against = "" if old is None else f" version {old}"
        write_line(f"{file} is not compatible with {subject}{against}{'' if level is None else f' ({level})'}:")
        for problem in problems:
            kind = f" ({problem['kind']} at {problem['path']})" if "kind" in problem else ""
            write_line(f"  {problem['message']}{kind}")
    if messages:
        context.exit(1)


@schema.command()
@click.argument("subject")
@click.option("--version", type=click.IntRange(min=1), help="Delete this version alone.")
@click.option("--permanent", is_flag=True, help="Delete for good what was softly deleted before.")
@click.option("--if-exists", is_flag=True, help="Succeed if there is nothing to delete.")
@json_option
@registry_options
def delete(
    subject: str,
    version: int | None,
    permanent: bool,
    if_exists: bool,
    as_json: bool,
) -> None:
    """Delete SUBJECT, or one version of it.

    The first deletion is soft: schemas can still be looked up by id. A second one with --permanent removes them.
    """
    from tailrace.schema.error import RegistryError

    with connected() as registry:
        try:
            with _suggesting(registry, subject):
                if version is None:
                    versions = registry.delete_subject(subject, permanent=permanent)
                else:
                    versions = [registry.delete_version(subject, version, permanent=permanent)]
        except RegistryError as error:
            if not (if_exists and error.status == _NOT_FOUND):
                raise
            versions = []
    if as_json:
        write_json({"subject": subject, "deleted": versions, "permanent": permanent})
    elif versions:
        word = "version" if len(versions) == 1 else "versions"
        write_line(f"deleted {subject} {word} {', '.join(map(str, versions))}{' for good' if permanent else ''}")


@schema.command()
@click.argument("subject", required=False)
@click.option("--level", type=click.Choice(_LEVELS, case_sensitive=False), help="Set the compatibility level.")
@click.option("--normalize/--no-normalize", default=None, help="Whether to register the normal form of schemas.")
@click.option("--unset", is_flag=True, help="Remove the config, so that the default applies.")
@json_option
@registry_options
def config(
    subject: str | None,
    level: str | None,
    normalize: bool | None,
    unset: bool,
    as_json: bool,
) -> None:
    """Show or change the compatibility config of SUBJECT or, without SUBJECT, of the default context."""
    changes: dict[str, Any] = {} if level is None else {"compatibility": level.upper()}
    if normalize is not None:
        changes["normalize"] = normalize
    if unset and changes:
        raise click.UsageError("--unset and --level or --normalize cannot be combined")
    with connected() as registry:
        if unset:
            registry.delete_config(subject)
        elif changes:
            registry.set_config(changes, subject)
        found = registry.config(subject)
    if as_json:
        write_json({"subject": subject, **found})
        return
    for name, value in sorted(found.items()):
        write_line(f"{name}={value if isinstance(value, str) else json.dumps(value)}")


# --- parts


def _new_schema(file: Path, language: str | None, references: "tuple[Reference, ...]") -> "NewSchema":
    from tailrace.schema.language import SchemaType
    from tailrace.schema.stored import NewSchema

    return NewSchema(read_schema(file), SchemaType(choose_language(file, language).upper()), references)


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Name the file in the registry's error."""
    from tailrace.schema.error import RegistryError

    try:
        yield
    except RegistryError as error:
        raise click.ClickException(f"{file}: {error}") from error


@contextmanager
def _suggesting(registry: "Registry", subject: str) -> Iterator[None]:
    """Suggest a similar name if there is no such subject."""
    from tailrace.config.configuration import suggestion
    from tailrace.schema.error import RegistryError

    try:
        yield
    except RegistryError as error:
        if error.code == _SUBJECT_NOT_FOUND and (hint := suggestion(subject, registry.subjects())):
            raise RegistryError(error.status, error.code, f"{error.message}{hint}") from None
        raise


def _description(found: "StoredSchema", versions: list[int] | None) -> dict[str, Any]:
    described: dict[str, Any] = {"id": found.id, "type": found.type, "schema": found.text}
    described["references"] = [
        {"name": each.name, "subject": each.subject, "version": each.version} for each in found.references
    ]
    if versions is not None:
        described = {"subject": found.subject, "version": found.version, **described, "versions": versions}
    return described


def _shown(found: "StoredSchema") -> str:
    """Return the text, with the JSON of Avro and JSON Schema over several lines at a terminal."""
    if found.type == "PROTOBUF" or not is_terminal():
        return found.text.rstrip("\n")
    return json.dumps(json.loads(found.text), ensure_ascii=False, indent=2)


def _is_problem(message: str) -> bool:
    return not message.startswith(("{oldSchema", "{validateFields", "{compatibility"))


def _problem(message: str) -> dict[str, str]:
    parts = _DIFFERENCE.fullmatch(message)
    if parts is None:
        return {"message": message}
    return {"message": parts[2], "kind": parts[1], "path": parts[3]}


def _first(pattern: re.Pattern[str], messages: list[str]) -> str | None:
    return next((found[1] for found in map(pattern.search, messages) if found is not None), None)
