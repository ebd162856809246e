"""JAAS option texts of Kafka and ZooKeeper, such as the value of `sasl.jaas.config`.

A text names a login module, a control flag and options:

    org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="secret";

Kafka splits it with Java's StreamTokenizer, whose rules are kept: a word consists of letters, digits and `._-$`;
quotes are single or double, with Java's escapes; `//`, `/*` and a lone `/` begin comments. A value that begins with a
digit, a dot or a minus has to be quoted. Unlike Kafka, a quote must end on its line, and an option may be given once.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

_TOKEN = re.compile(
    r"""(?P<blank>[\x00-\x20]+)
      | (?P<comment>/\*.*?\*/)
      | (?P<open>/\*)
      | (?P<line>/[^\r\n]*)
      | (?P<number>-?[0-9.]+ | -)
      | (?P<word>[A-Za-z_$\u00A0-\U0010FFFF][A-Za-z0-9._$\-\u00A0-\U0010FFFF]*)
      | (?P<quote>"(?:[^"\\\r\n]|\\.)*" | '(?:[^'\\\r\n]|\\.)*')
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLAGS: Final = {"required", "requisite", "sufficient", "optional"}
_KERBEROS: Final = "Krb5LoginModule"
_OPTION_NAME = re.compile(r"username|password|tokenauth|serviceName|user_")
_CLASS_NAME = re.compile(r"([a-z]\w*\.)+[A-Za-z]\w*")


class JaasError(ValueError):
    """A JAAS text that is not valid at a line and column.

    It quotes no value, because values are secrets, and no name that could be a value with a wrong quote before it.
    """

    def __init__(self, text: str, offset: int, message: str) -> None:
        line = text.count("\n", 0, offset) + 1
        column = offset - text.rfind("\n", 0, offset)
        super().__init__(f"JAAS config, line {line} column {column}: {message}")
        self.line, self.column, self.message = line, column, message


class LoginModule(Enum):
    """The login modules that are supported, by their class names."""

    PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
    SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
    OAUTHBEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    ZOOKEEPER = "org.apache.zookeeper.server.auth.DigestLoginModule"

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The SASL mechanisms that the module serves."""
        return _MECHANISMS.get(self, (self.name,))


_MECHANISMS: Final = {
    LoginModule.SCRAM: ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    LoginModule.ZOOKEEPER: ("DIGEST-MD5",),
}
KAFKA_MODULES: Final = (LoginModule.PLAIN, LoginModule.SCRAM, LoginModule.OAUTHBEARER)
"""The modules with which clients log in to a broker."""


@dataclass(frozen=True, slots=True, repr=False)
class Login:
    """The login module of a JAAS text and its options."""

    module: LoginModule
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Login({self.module.name}, options {', '.join(sorted(self.options))})"

    @property
    def username(self) -> str | None:
        return self.options.get("username")

    @property
    def password(self) -> str | None:
        return self.options.get("password")

    @property
    def is_token(self) -> bool:
        """Whether the user name and the password are those of a delegation token."""
        return self.module is LoginModule.SCRAM and self.options.get("tokenauth", "").lower() == "true"


class _Token(NamedTuple):
    kind: str
    text: str
    offset: int

    @property
    def is_text(self) -> bool:
        return self.kind in ("word", "quote")


def parse_jaas(text: str, known: Sequence[LoginModule] = KAFKA_MODULES) -> Login:
    """Return the only login of a JAAS text, which must be of a `known` module, or raise `JaasError`."""
    tokens = _Tokens(text)
    name = tokens.next("the class of a login module")
    module = _module(text, name, known)
    flag = tokens.next("a control flag, such as required")
    if flag.text.lower() not in _FLAGS:
        raise JaasError(text, flag.offset, f"the control flag is one of {', '.join(sorted(_FLAGS))}")
    options = _options(text, tokens)
    if (extra := tokens.next_or_none()) is not None:
        raise JaasError(text, extra.offset, "there is more text after the semicolon; one login module is allowed")
    return Login(module, options)


def _module(text: str, name: _Token, known: Sequence[LoginModule]) -> LoginModule:
    if name.text.rpartition(".")[2] == _KERBEROS:
        raise JaasError(text, name.offset, f"{_KERBEROS}: GSSAPI (Kerberos) is not supported")
    for module in known:
        if module.value == name.text:
            return module
    shown = name.text if _CLASS_NAME.fullmatch(name.text) else "this"
    names = ", ".join(module.value for module in known)
    raise JaasError(text, name.offset, f"{shown} is not a known login module; known are {names}")


def _options(text: str, tokens: "_Tokens") -> dict[str, str]:
    options: dict[str, str] = {}
    while True:
        key = tokens.next_or_none()
        if key is None:
            raise JaasError(text, len(text), "the login module does not end with a semicolon")
        if key.text == ";" and key.kind == "other":
            return options
        if not key.is_text:
            raise JaasError(text, key.offset, "the name of an option or a semicolon is expected")
        known = _OPTION_NAME.match(key.text)
        shown = f"option {known[0]}" if known else "an option"
        if key.text in options:
            raise JaasError(text, key.offset, f"{shown} is given twice")
        equals = tokens.next_or_none()
        if equals is None or equals.kind != "other" or equals.text != "=":
            raise JaasError(text, equals.offset if equals else len(text), f"{shown} has no value")
        options[key.text] = tokens.next(f"a value of {shown}").text


class _Tokens:
    """The tokens of a text, without blanks and comments."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokenize(text)

    def next_or_none(self) -> _Token | None:
        return next(self._tokens, None)

    def next(self, expected: str) -> _Token:
        """Return the next word or quoted text; raise `JaasError` if there is something else."""
        token = self.next_or_none()
        if token is None:
            raise JaasError(self._text, len(self._text), f"{expected} is missing")
        if token.kind == "number":
            raise JaasError(self._text, token.offset, f"{expected} is expected; put text that begins so in quotes")
        if not token.is_text:
            raise JaasError(self._text, token.offset, f"{expected} is expected")
        return token


def _tokenize(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        kind = str(match.lastgroup)
        if kind == "open":
            raise JaasError(text, match.start(), "the comment has no end")
        if kind == "other" and match[0] in "\"'":
            raise JaasError(text, match.start(), "the quote has no end on its line")
        if kind == "quote":
            yield _Token(kind, _ESCAPE.sub(_unescape, match[0][1:-1]), match.start())
        elif kind in ("number", "word", "other"):
            yield _Token(kind, match[0], match.start())


def _unescape(match: re.Match[str]) -> str:
    escape = match[1]
    return chr(int(escape, 8)) if escape[0] in "01234567" else _ESCAPED.get(escape, escape)
