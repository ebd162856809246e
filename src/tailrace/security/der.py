"""DER, the encoding of certificates, as far as their names and dates need it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

SEQUENCE: Final = 0x30
_EXPLICIT_VERSION: Final = 0xA0
_TIME_FORMATS: Final = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
_CENTURY_START: Final = 2050
"""A year of two digits lies in the 100 years before it (RFC 5280)."""


class MalformedCertificate(ValueError):
    """A certificate that cannot be read."""


class Element(NamedTuple):
    """One value: its tag, its content, and all of its bytes."""

    tag: int
    content: bytes
    encoded: bytes


class CertificateFields(NamedTuple):
    """Parts of a certificate: its subject in DER, and between which times it is valid."""

    subject: bytes
    not_before: datetime
    not_after: datetime


def certificate_fields(certificate: bytes) -> CertificateFields:
    """Return parts of a certificate in DER, or raise `MalformedCertificate`."""
    (outer,) = elements(certificate, 1)
    (body,) = elements(content_of(outer, SEQUENCE), 1, is_whole=False)
    fields = [part for part in elements(content_of(body, SEQUENCE)) if part.tag != _EXPLICIT_VERSION]
    if len(fields) < 5:
        raise MalformedCertificate("the certificate has no subject")
    _serial_number, _algorithm, _issuer, validity, subject = fields[:5]
    not_before, not_after = (_time(part) for part in elements(content_of(validity, SEQUENCE), 2))
    return CertificateFields(subject.encoded, not_before, not_after)


def _time(element: Element) -> datetime:
    try:
        time = datetime.strptime(element.content.decode("ascii"), _TIME_FORMATS[element.tag]).replace(tzinfo=UTC)
    except (KeyError, ValueError):
        raise MalformedCertificate("a date of the certificate is not valid") from None
    is_short = element.tag == min(_TIME_FORMATS)
    return time.replace(year=time.year - 100) if is_short and time.year >= _CENTURY_START else time


def elements(data: bytes, count: int | None = None, *, is_whole: bool = True) -> list[Element]:
    """Return the elements of a content: `count` of them, and no more unless `is_whole` is false."""
    found = []
    for element in _walk(data):
        found.append(element)
        if not is_whole and len(found) == count:
            break
    if count is not None and len(found) != count:
        raise MalformedCertificate(f"{count} elements are expected, and there are {len(found)}")
    return found


def _walk(data: bytes) -> Iterator[Element]:
    offset = 0
    while offset < len(data):
        if offset + 2 > len(data):
            raise MalformedCertificate("an element has no length")
        start, size = offset + 2, data[offset + 1]
        if size >= 0x80:
            length_size = size & 0x7F
            if not 1 <= length_size <= 4:
                raise MalformedCertificate("the length of an element is not DER")
            size = int.from_bytes(data[start : start + length_size], "big")
            start += length_size
        if start + size > len(data):
            raise MalformedCertificate("an element is cut off")
        yield Element(data[offset], data[start : start + size], data[offset : start + size])
        offset = start + size


def content_of(element: Element, tag: int) -> bytes:
    """Return the content of an element that must have this tag."""
    if element.tag != tag:
        raise MalformedCertificate(f"an element has the tag {element.tag:#04x} instead of {tag:#04x}")
    return element.content
