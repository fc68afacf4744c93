"""What a web server's answers mean: a file or a part of it, a try to make again, or nothing for us."""

import re
import ssl
from email.message import Message
from http.client import HTTPResponse
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

# Answers of a server that may well do better in a moment, besides its own errors (5xx).
PASSING = (408, 425, 429)


class Broken(Exception):
    """This try failed; another may not."""


class Useless(Exception):
    """This address has nothing for us."""


class _Redirects(request.HTTPRedirectHandler):
    """To the web only, and not for ever."""

    max_redirections = 8
    max_repeats = 2

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        if urlsplit(newurl).scheme not in ("http", "https"):
            raise HTTPError(newurl, code, msg, headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def opener() -> request.OpenerDirector:
    """Opens http and https and nothing else, through the proxies of the environment if it names any."""
    opener = request.OpenerDirector()
    for handler in (
        *(request.ProxyHandler(), request.HTTPHandler(), request.HTTPSHandler(), _Redirects()),
        *(request.HTTPDefaultErrorHandler(), request.HTTPErrorProcessor()),
    ):
        opener.add_handler(handler)
    return opener


def offered(response: HTTPResponse) -> tuple[int, int | None]:
    """Where the answer begins within the file, and how long the file is, if the server says so."""
    if response.status not in (200, 206):
        raise Useless(f"the server answered {response.status} {response.reason} instead of the file")
    # Pages that ask who is there come with a 200 like any file, and would be taken for it where no checksum is known.
    if response.headers.get_content_type() == "text/html":
        raise Useless("the server answered with a web page instead of the file")
    if response.status == 200:
        length = response.headers.get("Content-Length", "")
        return 0, int(length) if length.isdecimal() else None
    first, total = content_range(response.headers)
    if first is None:
        raise Useless("the server answered with a part of the file and does not say which")
    return first, total


def content_range(headers: Message) -> tuple[int | None, int | None]:
    """The first byte and the size of the file, of `Content-Range: bytes 5-9/10` or `bytes */10`."""
    found = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(?:(\d+)|\*)", headers.get("Content-Range", "").strip())
    first, total = found.groups() if found else (None, None)
    return None if first is None else int(first), None if total is None else int(total)


def validator_of(headers: Message) -> str | None:
    """What `If-Range` may hold: a weak ETag promises too little."""
    etag = headers.get("ETag", "")
    return etag if etag.startswith('"') else headers.get("Last-Modified")


def failure(answer: HTTPError) -> Broken | Useless:
    """What an answer that is no success means."""
    if 300 <= answer.code < 400:
        to = answer.headers.get("Location", "")
        if urlsplit(to).scheme not in ("", "http", "https"):
            return Useless(f"the server redirects to {to}, which is not on the web")
        return Useless("the server redirects in a circle, or too often")
    said = f"the server answered {answer.code} {answer.reason}".strip()
    return Broken(said) if answer.code >= 500 or answer.code in PASSING else Useless(said)


def breakdown(error: Exception, silence: float) -> Broken | Useless:
    """What a connection that failed means."""
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return Useless(f"its certificate cannot be trusted ({reason.verify_message})")
    if isinstance(reason, TimeoutError):
        return Broken(f"the server was silent for {silence:g} s")
    said = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return Broken(f"the connection failed ({said})")
