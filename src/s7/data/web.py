"""Responses of web servers: a file or a part of it, a temporary failure, or a permanent one."""

import re
import ssl
from email.message import Message
from http.client import HTTPResponse
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

# Statuses that may change when the request is repeated, besides server errors (5xx).
TEMPORARY = (408, 425, 429)


class TransientError(Exception):
    """A request failed; the same request may succeed later."""


class PermanentError(Exception):
    """A request failed and would fail again: the address does not have the file."""


class _Redirects(request.HTTPRedirectHandler):
    """Follows redirects to http and https only, and not in circles."""

    max_redirections = 8
    max_repeats = 2

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        if urlsplit(newurl).scheme not in ("http", "https"):
            raise HTTPError(newurl, code, msg, headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def opener() -> request.OpenerDirector:
    """Returns an opener for http and https only, through the proxies that the environment names."""
    opener = request.OpenerDirector()
    for handler in (
        *(request.ProxyHandler(), request.HTTPHandler(), request.HTTPSHandler(), _Redirects()),
        *(request.HTTPDefaultErrorHandler(), request.HTTPErrorProcessor()),
    ):
        opener.add_handler(handler)
    return opener


def offered(response: HTTPResponse) -> tuple[int, int | None]:
    """Returns where the response starts within the file, and the length of the file if the server gives it."""
    if response.status not in (200, 206):
        raise PermanentError(f"the server answered {response.status} {response.reason} instead of the file")
    # Login pages have status 200 like any file, and would pass for it where no checksum is known.
    if response.headers.get_content_type() == "text/html":
        raise PermanentError("the server answered with a web page instead of the file")
    if response.status == 200:
        length = response.headers.get("Content-Length", "")
        return 0, int(length) if length.isdecimal() else None
    first, total = content_range(response.headers)
    if first is None:
        raise PermanentError("the server answered with a part of the file and does not say which")
    return first, total


def content_range(headers: Message) -> tuple[int | None, int | None]:
    """Parses `Content-Range: bytes 5-9/10` or `bytes */10`: the first byte and the size of the file."""
    found = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(?:(\d+)|\*)", headers.get("Content-Range", "").strip())
    first, total = found.groups() if found else (None, None)
    return None if first is None else int(first), None if total is None else int(total)


def validator_of(headers: Message) -> str | None:
    """Returns a value for `If-Range`. Weak ETags are not allowed there, so the date replaces them."""
    etag = headers.get("ETag", "")
    return etag if etag.startswith('"') else headers.get("Last-Modified")


def failure(answer: HTTPError) -> TransientError | PermanentError:
    """Returns the error for a response that is not a success."""
    if 300 <= answer.code < 400:
        to = answer.headers.get("Location", "")
        if urlsplit(to).scheme not in ("", "http", "https"):
            return PermanentError(f"the server redirects to {to}, which is not on the web")
        return PermanentError("the server redirects in a circle, or too often")
    said = f"the server answered {answer.code} {answer.reason}".strip()
    return TransientError(said) if answer.code >= 500 or answer.code in TEMPORARY else PermanentError(said)


def breakdown(error: Exception, silence: float) -> TransientError | PermanentError:
    """Returns the error for a failed connection."""
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return PermanentError(f"its certificate cannot be trusted ({reason.verify_message})")
    if isinstance(reason, TimeoutError):
        return TransientError(f"the server was silent for {silence:g} s")
    said = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return TransientError(f"the connection failed ({said})")
