"""Key stores and trust stores, as Kafka's options name them: PEM files, PEM in options, and PKCS#12 files."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, NamedTuple

from tailrace.security.der import SEQUENCE, MalformedCertificate, certificate_fields
from tailrace.security.distinguished_name import format_name
from tailrace.security.tls.error import TlsConfigError
from tailrace.security.tls.pem import PemBlock, is_pem, parse_pem
from tailrace.security.tls.pkcs12 import Pkcs12Content, read_pkcs12

_GUESSED: Final = ("", "JKS")
"""JKS is Kafka's default, and Java reads a PKCS#12 store under this type too."""

_JAVA_MAGIC: Final = {b"\xfe\xed\xfe\xed": "JKS", b"\xce\xce\xce\xce": "JCEKS"}
_FILE_BYTES_MAX: Final = 16 * 2**20


@dataclass(frozen=True, slots=True, repr=False)
class Stores:
    """Where the keys and certificates of one side of TLS are, by Kafka's options `ssl.*`.

    `key_location` is librdkafka's `ssl.key.location`: a PEM file with the key, apart from the certificates.
    """

    keystore_type: str | None = None
    keystore_location: str | None = None
    keystore_password: str | None = None
    key_password: str | None = None
    keystore_key: str | None = None
    keystore_certificate_chain: str | None = None
    key_location: str | None = None
    truststore_type: str | None = None
    truststore_location: str | None = None
    truststore_password: str | None = None
    truststore_certificates: str | None = None

    def __repr__(self) -> str:
        return f"Stores(keystore={self.keystore_location!r}, truststore={self.truststore_location!r})"

    @property
    def has_key(self) -> bool:
        """Whether a key store is configured."""
        return any((self.keystore_location, self.keystore_key, self.keystore_certificate_chain, self.key_location))

    @property
    def has_trust(self) -> bool:
        """Whether a trust store is configured."""
        return bool(self.truststore_location or self.truststore_certificates)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files to watch: when one of them changes, the contexts have to be made again."""
        paths = (self.keystore_location, self.key_location, self.truststore_location)
        return tuple(Path(path) for path in paths if path)


class KeyMaterial(NamedTuple):
    """A private key and its certificates, the key's own first. `source` names the option and the place for errors."""

    key: PemBlock
    chain: list[PemBlock]
    password: str | None
    password_option: str
    source: "Source"

    def __repr__(self) -> str:
        return f"KeyMaterial({self.source})"


class Source(NamedTuple):
    """What is read: the option that gives it, and the file; None if the option holds it."""

    option: str
    path: str | None

    def __str__(self) -> str:
        return self.path or "the PEM text of the option"

    def error(self, problem: str) -> TlsConfigError:
        """Return the error of what is read; `problem` begins after its name."""
        return TlsConfigError(self.option, f"{self}: {problem}")


# --- reading


def read_key_material(stores: Stores) -> KeyMaterial | None:
    """Return the key and its certificates, None if no key store is configured, or raise `TlsConfigError`."""
    if not stores.has_key:
        return None
    if stores.keystore_location is None:
        return _key_of_options(stores)
    if stores.keystore_key or stores.keystore_certificate_chain:
        problem = "the key store is given twice, as a file and as text; leave out ssl.keystore.location or both texts"
        raise TlsConfigError("ssl.keystore.location", problem)
    source = Source("ssl.keystore.location", stores.keystore_location)
    data = _read(source)
    if _kind(source, stores.keystore_type, data, "ssl.keystore.type") == "PKCS12":
        if stores.key_location is not None:
            raise TlsConfigError("ssl.key.location", f"{source}: a PKCS12 store holds its key; leave it out")
        password = stores.keystore_password if stores.keystore_password is not None else stores.key_password
        content = _pkcs12(source, data, password, "ssl.keystore.password")
        if content.key is None or not content.chain:
            raise source.error("the store has no private key with a certificate")
        return KeyMaterial(content.key, content.chain + content.others, None, "ssl.keystore.password", source)
    blocks = _pem(data)
    key_source = source
    if stores.key_location is not None:
        key_source = Source("ssl.key.location", stores.key_location)
        blocks = [block for block in blocks if block.is_certificate] + _pem(_read(key_source))
    return _key_of_blocks(source, key_source, blocks, stores)


def _key_of_options(stores: Stores) -> KeyMaterial:
    chain_option, key_option = "ssl.keystore.certificate.chain", "ssl.keystore.key"
    if stores.key_location is not None:
        raise TlsConfigError("ssl.key.location", "ssl.key.location needs ssl.certificate.location")
    for option, text in ((chain_option, stores.keystore_certificate_chain), (key_option, stores.keystore_key)):
        if not text:
            raise TlsConfigError(option, f"{option} is missing: {chain_option} and {key_option} go together")
    if (stores.keystore_type or "PEM").upper() not in (*_GUESSED, "PEM"):
        raise TlsConfigError("ssl.keystore.type", f"{chain_option} needs ssl.keystore.type=PEM")
    blocks = [block for block in parse_pem(stores.keystore_certificate_chain or "") if block.is_certificate]
    blocks += [block for block in parse_pem(stores.keystore_key or "") if block.is_key]
    return _key_of_blocks(Source(chain_option, None), Source(key_option, None), blocks, stores)


def _key_of_blocks(source: Source, key_source: Source, blocks: list[PemBlock], stores: Stores) -> KeyMaterial:
    chain = [block for block in blocks if block.is_certificate]
    key = next((block for block in blocks if block.is_key), None)
    if not chain:
        raise source.error("there is no certificate in it")
    if key is None:
        raise key_source.error("there is no private key in it")
    password, option = stores.key_password, "ssl.key.password"
    if password is None and stores.keystore_password is not None:
        password, option = stores.keystore_password, "ssl.keystore.password"
    if key.is_encrypted and not password:
        raise TlsConfigError(option, f"{key_source}: the private key is encrypted, and {option} is not set")
    _checked(source, chain)
    return KeyMaterial(key, chain, password if key.is_encrypted else None, option, key_source)


def read_trusted(stores: Stores) -> list[PemBlock] | None:
    """Return the certificates to trust, None if no trust store is configured, or raise `TlsConfigError`."""
    if not stores.has_trust:
        return None
    if stores.truststore_location and stores.truststore_certificates:
        problem = "the trust store is given twice, as a file and as text; leave out one of them"
        raise TlsConfigError("ssl.truststore.location", problem)
    if stores.truststore_location is None:
        source = Source("ssl.truststore.certificates", None)
        blocks = parse_pem(stores.truststore_certificates or "")
    else:
        source = Source("ssl.truststore.location", stores.truststore_location)
        data = _read(source)
        if _kind(source, stores.truststore_type, data, "ssl.truststore.type") == "PKCS12":
            content = _pkcs12(source, data, stores.truststore_password, "ssl.truststore.password")
            blocks = content.chain + content.others
        else:
            blocks = _pem(data)
    trusted = [block for block in blocks if block.is_certificate]
    if not trusted:
        raise source.error("there is no certificate in it")
    _checked(source, trusted)
    return trusted


def _read(source: Source) -> bytes:
    path = Path(source.path or "")
    try:
        with path.open("rb") as file:
            data = file.read(_FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        raise source.error("the file does not exist") from None
    except OSError as error:
        raise source.error(f"the file cannot be read: {error.strerror}") from None
    if len(data) > _FILE_BYTES_MAX:
        raise source.error(f"the file has more than {_FILE_BYTES_MAX} bytes; it is not a store of keys or certificates")
    if not data:
        raise source.error("the file is empty")
    return data


def _kind(source: Source, given: str | None, data: bytes, option: str) -> Literal["PEM", "PKCS12"]:
    if (java := _JAVA_MAGIC.get(data[:4])) is not None:
        convert = f"keytool -importkeystore -srckeystore {source} -destkeystore {source}.p12 -deststoretype PKCS12"
        raise source.error(f"this is a {java} store, which only Java reads; convert it: {convert}")
    kind = (given or "").strip().upper()
    if not is_pem(data) and data[0] != SEQUENCE:
        raise source.error("the file is neither PEM nor a PKCS12 store")
    if kind in _GUESSED:
        return "PEM" if is_pem(data) else "PKCS12"
    if kind == "PEM":
        if not is_pem(data):
            raise source.error(f"the file holds no PEM, which {option} says")
        return "PEM"
    if kind == "PKCS12":
        if is_pem(data):
            raise source.error(f"the file holds PEM, but {option} says PKCS12")
        return "PKCS12"
    raise TlsConfigError(option, f"stores of type {given} are not supported; use PEM or PKCS12")


def _pem(data: bytes) -> list[PemBlock]:
    return parse_pem(data.decode("utf-8", errors="replace"))


def _pkcs12(source: Source, data: bytes, password: str | None, option: str) -> Pkcs12Content:
    try:
        return read_pkcs12(data, password)
    except ImportError:
        needed = "PKCS12 stores need the package cryptography; install the extra tailrace[security], or use PEM"
        raise source.error(needed) from None
    except ValueError:
        problem = "the password is missing or wrong" if not password else "the password is wrong"
        raise TlsConfigError(option, f"{source}: {problem}, or the file is not a PKCS12 store") from None


def _checked(source: Source, certificates: list[PemBlock]) -> None:
    for number, block in enumerate(certificates, start=1):
        try:
            certificate_fields(block.decode())
        except ValueError as error:
            raise source.error(f"certificate {number} is damaged: {error}") from None


# --- dates


def date_problems(stores: Stores, now: datetime) -> list[str]:
    """Return a line for each certificate that has expired or is not valid yet; raise `TlsConfigError` as reading does.

    Such certificates are used, as Kafka does, because the peer is the one to judge them; it refuses them.
    """
    material = read_key_material(stores)
    found = [] if material is None else _dates(str(material.source), material.chain, now)
    trusted = read_trusted(stores) or []
    return found + _dates(stores.truststore_location or "ssl.truststore.certificates", trusted, now)


def _dates(place: str, certificates: list[PemBlock], now: datetime) -> list[str]:
    lines = []
    for block in certificates:
        fields = certificate_fields(block.decode())
        name = _shown(fields.subject)
        if now > fields.not_after:
            lines.append(f"{place}: the certificate {name} expired at {fields.not_after:%Y-%m-%d %H:%M:%S} UTC")
        elif now < fields.not_before:
            lines.append(f"{place}: the certificate {name} is valid from {fields.not_before:%Y-%m-%d %H:%M:%S} UTC")
    return lines


def _shown(subject: bytes) -> str:
    try:
        return format_name(subject)
    except MalformedCertificate:
        return "with an unreadable name"
