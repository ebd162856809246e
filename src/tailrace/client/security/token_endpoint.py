"""Tokens from an OAuth server, for the id and the secret of the client (RFC 6749, client credentials)."""

import asyncio
import base64
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit

from tailrace.base.security_limits import OAUTH_MESSAGE_BYTES_MAX
from tailrace.client.error import AuthenticationError, BrokerUnavailable
from tailrace.client.security.token import CachedTokens, FetchedToken, TokenSource, expiry_of
from tailrace.client.security.web import WEB_ERRORS, describe_problem, make_opener, shown_url

_TIMEOUT_S: Final = 10.0
_SHOWN_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """The address of an OAuth server, and the client's id and secret there."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    encodes_header: bool = False
    """Whether the id and the secret are URL-encoded, which RFC 6749 demands and many servers do not accept."""

    def request(self) -> urllib.request.Request:
        """Return the request for a token."""
        texts = [self.client_id, self.client_secret]
        pair = ":".join(map(quote_plus, texts) if self.encodes_header else texts)
        form = {"grant_type": "client_credentials"} | ({} if self.scope is None else {"scope": self.scope})
        headers = {
            "Accept": "application/json",
            "Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        return urllib.request.Request(self.url, urlencode(form).encode(), headers)  # noqa: S310 - the scheme is checked


def tokens_of_endpoint(endpoint: TokenEndpoint, context: ssl.SSLContext | None = None) -> TokenSource:
    """Return the source of an OAuth server; `context` is for HTTPS, the system's if it is None."""
    if urlsplit(endpoint.url).scheme not in ("http", "https"):
        raise ValueError(f"{shown_url(endpoint.url)} is not a URL with https, http or file")

    async def fetch() -> FetchedToken:
        return await asyncio.to_thread(_fetch, context, endpoint)

    where = f"{shown_url(endpoint.url)} for client {endpoint.client_id}"
    return CachedTokens(f"the token of {where}", fetch)


def _fetch(context: ssl.SSLContext | None, endpoint: TokenEndpoint) -> FetchedToken:
    asked_at_s = time.time()
    where = shown_url(endpoint.url)
    try:
        with make_opener(context).open(endpoint.request(), timeout=_TIMEOUT_S) as answer:
            data = answer.read(OAUTH_MESSAGE_BYTES_MAX + 1)
    except urllib.error.HTTPError as error:
        said = _said(error)
        error.close()
        if error.code >= 500 or error.code == 429:
            raise BrokerUnavailable(f"the token endpoint {where} answers {error.code}{said}") from None
        text = f"the token endpoint {where} refuses client {endpoint.client_id}: {error.code}{said}"
        raise AuthenticationError(f"{text}; check the client's id, secret and scope") from None
    except WEB_ERRORS as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            text = f"the certificate of the token endpoint {where} is not trusted: {reason.verify_message}"
            raise AuthenticationError(text) from None
        text = f"the token endpoint {where} cannot be reached: {describe_problem(error)}"
        raise BrokerUnavailable(text) from None
    return _read(data, where, asked_at_s)


def _read(data: bytes, where: str, asked_at_s: float) -> FetchedToken:
    try:
        reply: Any = json.loads(data)
        token = reply["access_token"]
        lifetime_s = reply.get("expires_in")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise AuthenticationError(f"the token endpoint {where} answers without an access_token") from None
    if not isinstance(token, str) or len(data) > OAUTH_MESSAGE_BYTES_MAX:
        raise AuthenticationError(f"the token endpoint {where} answers without an access_token that can be used")
    expires_at_s = expiry_of(token)
    if expires_at_s is None and isinstance(lifetime_s, int | float):
        expires_at_s = asked_at_s + lifetime_s
    return FetchedToken(token, expires_at_s)


def _said(error: urllib.error.HTTPError) -> str:
    """Return the error of an OAuth answer, such as invalid_client; nothing else of it is shown."""
    try:
        reply: Mapping[str, Any] = json.loads(error.read(OAUTH_MESSAGE_BYTES_MAX))
        return f" ({str(reply['error'])[:_SHOWN_MAX]})"
    except (*WEB_ERRORS, TypeError, KeyError, AttributeError, RecursionError):
        return ""
