"""The password of a user, which never comes from the command line: other users of the machine could see it there."""

import sys
from pathlib import Path

import click


def read_password(file: Path | None) -> str:
    """Return the password in a file, else from a prompt at a terminal, else from stdin. One newline at the end is cut.

    Raises `click.ClickException` if the password is empty or has several lines.
    """
    if file is not None:
        text, place = file.read_text(encoding="utf-8"), str(file)
    elif sys.stdin.isatty():
        text, place = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True), "the prompt"
    else:
        text, place = sys.stdin.read(), "stdin"
    password = text.removesuffix("\n").removesuffix("\r")
    if not password:
        raise click.ClickException(f"the password from {place} is empty")
    if "\n" in password:
        raise click.ClickException(f"the password from {place} has several lines; it must be one line")
    return password
