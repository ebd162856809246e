"""Reading PKCS#12 stores. It needs the extra `security`, for the package cryptography."""

from typing import NamedTuple

from tailrace.security.tls.pem import PemBlock, parse_pem


class Pkcs12Content(NamedTuple):
    """The private key of a store, its certificates with the key's own first, and the other certificates."""

    key: PemBlock | None
    chain: list[PemBlock]
    others: list[PemBlock]


def read_pkcs12(data: bytes, password: str | None) -> Pkcs12Content:
    """Return the content of a store, whose key comes without encryption.

    Raise `ImportError` without the package, and `ValueError` if the password is wrong or the store is damaged.
    """
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    store = load_pkcs12(data, None if password is None else password.encode())
    others = [_certificate(other.certificate.public_bytes(Encoding.PEM)) for other in store.additional_certs]
    own = [] if store.cert is None else [_certificate(store.cert.certificate.public_bytes(Encoding.PEM))]
    key = None
    if store.key is not None:
        text = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (key,) = parse_pem(text.decode())
    return Pkcs12Content(key, own, others)


def _certificate(text: bytes) -> PemBlock:
    (block,) = parse_pem(text.decode())
    return block
