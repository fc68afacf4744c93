"""Who may connect to a server: the token, the host and the origin of a request."""

import hmac
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit


class Refusal(Exception):
    """Why a request is refused, with the HTTP status to answer it."""

    def __init__(self, status: HTTPStatus, reason: str):
        super().__init__(reason)
        self.status = status


def is_loopback(host: str) -> bool:
    """Whether a host, as a name or an address, is this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Access:
    """The rules of a server.

    Attributes:
        token: What every request must present; None to admit anyone, which is for loopback hosts only.
        origins: Origins of pages that may connect, besides the server's own: "https://robots.example".
    """

    token: str | None = None
    origins: Sequence[str] = ()

    def check(self, path: str, headers: Mapping[str, str]) -> None:
        """Check a request.

        Raises:
            Refusal: The token is missing or wrong, or a page of another site makes the request.
        """
        host = headers.get("Host", "")
        if self.token is None:
            # A page can point its own name to 127.0.0.1 and so pass the check of the origin. Its name is then the host.
            if not is_loopback(urlsplit(f"//{host}").hostname or ""):
                raise Refusal(HTTPStatus.FORBIDDEN, f"the host {host!r} is not this machine")
        elif not self._presents_token(path, headers):
            raise Refusal(HTTPStatus.UNAUTHORIZED, "the token is missing or wrong")
        origin = headers.get("Origin")
        if origin is not None and origin not in self.origins and urlsplit(origin).netloc != host:
            raise Refusal(HTTPStatus.FORBIDDEN, f"pages of {origin!r} may not connect")

    def _presents_token(self, path: str, headers: Mapping[str, str]) -> bool:
        scheme, _, given = headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            given = parse_qs(urlsplit(path).query).get("token", [""])[0]
        # Takes the same time wherever the first difference is.
        return hmac.compare_digest(given.strip().encode(), (self.token or "").encode())
