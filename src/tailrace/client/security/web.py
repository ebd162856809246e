"""Requests to the servers of OAuth: without redirects, and with errors that show no secrets.

A redirect could lead to another host, which gets to see the secret of a client or chooses the keys that a broker
trusts.
"""

import ssl
import urllib.error
import urllib.request
from functools import cache
from http.client import HTTPException, InvalidURL
from typing import Any, Final
from urllib.parse import urlsplit

WEB_ERRORS: Final = (OSError, HTTPException, ValueError)
"""What opening a URL and reading the answer raise; `ValueError` is for an address that is none."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes each redirect an `HTTPError`."""

    def redirect_request(self, *_arguments: Any, **_keywords: Any) -> None:
        return None


@cache
def system_opener() -> urllib.request.OpenerDirector:
    """Return the opener that trusts the certificates of the system."""
    return urllib.request.build_opener(_NoRedirects())


def make_opener(context: ssl.SSLContext | None) -> urllib.request.OpenerDirector:
    """Return an opener with this context for HTTPS, or the system's."""
    if context is None:
        return system_opener()
    return urllib.request.build_opener(_NoRedirects(), urllib.request.HTTPSHandler(context=context))


def describe_problem(error: Exception) -> str:
    """Return why a URL could not be read. The texts of Python may quote the URL or the answer, and are not shown."""
    if isinstance(error, urllib.error.HTTPError):
        is_redirect = 300 <= error.code < 400
        return f"it answers {error.code}{', and redirects are not followed' if is_redirect else ''}"
    if isinstance(error, OSError):
        return str(getattr(error, "reason", None) or error)
    if isinstance(error, InvalidURL | ValueError):
        return "the URL is not valid"
    return f"it does not answer in HTTP ({type(error).__name__})"


def shown_url(url: str) -> str:
    """Return an address for logs and errors: without a user, a password and a query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return f"{url.partition(':')[0]}:…"
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
