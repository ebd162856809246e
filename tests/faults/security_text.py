"""Mutated texts and files of security options: each is read, or refused with the error of its parser."""

from __future__ import annotations

import ssl
import time
from random import Random

from tests.clients.security.token import AUDIENCE, ISSUER
from tests.faults.frame_corpus import NASTY_BYTES
from tests.faults.fuzz import FuzzFailure
from tests.faults.security_corpus import MARK, STORE_PASSWORD, SecurityCorpus
from tests.faults.security_ground import Ground

from tailrace.security.bearer_token import TokenRefused, TokenRules
from tailrace.security.distinguished_name import subject_name
from tailrace.security.jaas import parse_jaas
from tailrace.security.jwt import KeySet, check_jwt
from tailrace.security.plain import users_of_login, users_of_properties
from tailrace.security.principal_rule import NoMatchingRule, PrincipalRules
from tailrace.security.tls.pem import parse_pem
from tailrace.security.tls.pkcs12 import read_pkcs12
from tailrace.security.unsecured_token import check_unsecured, unsecured_rules

_RULES = TokenRules(expected_issuer=ISSUER, expected_audiences=frozenset({AUDIENCE}))


class TextCases:
    """Draws a text of some kind and has it parsed."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._pem = (ground.issued.key_pem() + ground.issued.certificate_pem).encode()
        self._der = ssl.PEM_cert_to_DER_cert(ground.issued.certificate_pem)
        self._store = ground.keystore.read_bytes()
        self._keys = KeySet(ground.key_document)
        self._cases = (
            self._jaas,
            self._jaas,
            self._users,
            self._principal,
            self._pem_blocks,
            self._certificate,
            self._token,
            self._token,
            self._key_set,
        )

    def run(self, random: Random) -> tuple[bytes, str]:
        """Run one case, and return the text and what came of it."""
        corpus = SecurityCorpus(random, self._ground.refused_tokens)
        if random.random() < 0.002:
            return self._pkcs12(random)
        case = random.choice(self._cases)
        return case(random, corpus)

    def _jaas(self, _: Random, corpus: SecurityCorpus) -> tuple[bytes, str]:
        text = corpus.jaas()
        try:
            login = parse_jaas(text)
            users_of_login(login)
            unsecured_rules(login.options)
        except ValueError as error:
            if f"-{MARK}-" in str(error):
                raise FuzzFailure(f"the error quotes a password: {error}") from None
            return text.encode(), "refused"
        return text.encode(), "taken"

    def _users(self, _: Random, corpus: SecurityCorpus) -> tuple[bytes, str]:
        text = corpus.sentence(f"alice=pw-{MARK}\nbob = pw\\u0041\\\n more\n".encode()).decode(errors="replace")
        try:
            users_of_properties(text)
        except ValueError:
            return text.encode(), "refused"
        return text.encode(), "taken"

    def _principal(self, random: Random, corpus: SecurityCorpus) -> tuple[bytes, str]:
        text = corpus.rules()
        subject = random.choice(("CN=alice,O=Tests", "CN=" + "a" * 5000, "", "CN=x,OU=y,O=z,C=DE"))
        try:
            PrincipalRules(text).name(subject)
        except (ValueError, NoMatchingRule):
            return text.encode(), "refused"
        return text.encode(), "taken"

    def _pem_blocks(self, random: Random, corpus: SecurityCorpus) -> tuple[bytes, str]:
        text = corpus.sentence(self._pem)
        try:
            for block in parse_pem(text.decode(errors="replace")):
                if block.is_certificate:
                    block.decode()
        except ValueError:
            return text, "refused"
        return text, "taken"

    def _certificate(self, random: Random, _: SecurityCorpus) -> tuple[bytes, str]:
        mutated = bytearray(self._der)
        for _number in range(random.choice((1, 1, 2, 5))):
            start = random.randrange(len(mutated))
            mutated[start : start + random.choice((0, 1, 1, 2))] = random.choice(NASTY_BYTES)
        try:
            subject_name(bytes(mutated))
        except ValueError:
            return bytes(mutated), "refused"
        return bytes(mutated), "taken"

    def _token(self, random: Random, corpus: SecurityCorpus) -> tuple[bytes, str]:
        token = random.choice((corpus.unsigned_token(), random.choice(self._ground.refused_tokens)))
        text = corpus.sentence(token.encode()).decode(errors="replace")
        try:
            if random.random() < 0.5:
                check_jwt(text, self._keys, _RULES, time.time())
                raise FuzzFailure(f"a token that was not signed is taken: {text}")
            check_unsecured(text, _RULES, time.time())
        except TokenRefused:
            return text.encode(), "refused"
        return text.encode(), "taken"

    def _key_set(self, _: Random, corpus: SecurityCorpus) -> tuple[bytes, str]:
        text = corpus.sentence(self._ground.key_document.encode())
        try:
            KeySet(text)
        except ValueError:
            return text, "refused"
        return text, "taken"

    def _pkcs12(self, random: Random) -> tuple[bytes, str]:
        """Rarely, because the key of such a store is stretched for milliseconds."""
        mutated = bytearray(self._store)
        mutated[random.randrange(len(mutated))] ^= 1 << random.randrange(8)
        try:
            read_pkcs12(bytes(mutated), STORE_PASSWORD)
        except ValueError:
            return bytes(mutated), "refused"
        return bytes(mutated), "taken"
