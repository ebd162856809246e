"""Subjects of certificates, as Java 17 prints them: the names in DER and their texts are from its X500Principal."""

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from tailrace.security.der import MalformedCertificate
from tailrace.security.distinguished_name import format_name, subject_name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "303d310b3009060355040613025553310b30090603550408130243413111300f06035504"
            "07130853616e204a6f7365310e300c060355040313055374657665",
            "CN=Steve,L=San Jose,ST=CA,C=US",
        ),
        (
            "3042310a3008060355040a1301583114301206092a864886f70d01090116056140622e63"
            "311e301c060355040313155375652c204772616262697420616e642052756e6e",
            "CN=Sue\\, Grabbit and Runn,1.2.840.113549.1.9.1=#16056140622e63,O=X",
        ),
        (
            "304131133011060a0992268993f22c6401191603636f6d31173015060a0992268993f22c"
            "64011916076578616d706c653111300f060a0992268993f22c640101130175",
            "UID=u,DC=example,DC=com",
        ),
        (
            "3055310a30080603550403130178310a3008060355042e130171310b3009060355040413027375310a300806035504"
            "2a130167310a30080603550405130139310a3008060355040c130174310a30080603550409130173",
            "STREET=s,2.5.4.12=#130174,2.5.4.5=#130139,2.5.4.42=#130167,2.5.4.4=#13027375,2.5.4.46=#130171,CN=x",
        ),
        ("30173115301306035504030c0c4a6f73c3a920e4b896e7958c", "CN=José 世界"),
        ("300e310c300a06035504030c030d2078", "CN=\\\r\\ x"),
        ("300e310c300a06035504030c03000a78", "CN=\\00\nx"),
        ("300c310a30080603550403040141", "CN=#040141"),
        ("300b3109300706035504031300", "CN="),
        ("3000", ""),
        ("301c310a30080603550403130178310e300c06035504030c056123623d63", "CN=a\\#b\\=c,CN=x"),
    ],
)
def test_names(name: str, text: str) -> None:
    assert format_name(bytes.fromhex(name)) == text


def certificate(name: x509.Name) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    builder = x509.CertificateBuilder(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer")]), name, key.public_key(), 7, now, now
    )
    from cryptography.hazmat.primitives.serialization import Encoding

    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


def test_the_subject_of_a_certificate() -> None:
    """The whole certificate is longer than 127 bytes, so its lengths take several bytes."""
    parts = [
        [x509.NameAttribute(NameOID.COUNTRY_NAME, "DE")],
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "O" * 64)],
        [x509.NameAttribute(NameOID.COMMON_NAME, " a+b "), x509.NameAttribute(NameOID.USER_ID, "u")],
    ]
    name = x509.Name([x509.RelativeDistinguishedName(part) for part in parts])
    assert subject_name(certificate(name)) in (
        f"CN=\\ a\\+b\\ +UID=u,O={'O' * 64},C=DE",
        f"UID=u+CN=\\ a\\+b\\ ,O={'O' * 64},C=DE",
    )


def test_every_beginning_of_a_certificate_is_refused() -> None:
    whole = certificate(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "alice")]))
    assert subject_name(whole) == "CN=alice"
    for size in range(len(whole)):
        with pytest.raises(MalformedCertificate):
            subject_name(whole[:size])


@given(st.binary(max_size=60))
def test_any_bytes_are_a_name_or_refused(data: bytes) -> None:
    for content in (data, b"\x30" + bytes([len(data)]) + data):
        try:
            format_name(content)
        except MalformedCertificate:
            continue
