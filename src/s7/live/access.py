"""Who may connect to a server: the token, the host and the origin of a request."""

import hmac
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import SplitResult, parse_qs, urlsplit


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


def path_of(target: str) -> str:
    """The path of the target of a request.

    Raises:
        Refusal: The target is not an address.
    """
    return _split(target, f"the address {target!r:.80}").path


def _split(text: str, what: str) -> SplitResult:
    try:
        return urlsplit(text)
    except ValueError:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"{what} is not valid") from None


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
            Refusal: The token is missing or wrong, or a page of another site makes the request, or a header is invalid.
        """
        host = headers.get("Host", "")
        if self.token is None:
            # A page can point its own name to 127.0.0.1 and so pass the check of the origin. Its name is then the host.
            if not is_loopback(_split(f"//{host}", f"the host {host!r:.80}").hostname or ""):
                raise Refusal(HTTPStatus.FORBIDDEN, f"the host {host!r} is not this machine")
        elif not self._presents_token(path, headers):
            raise Refusal(HTTPStatus.UNAUTHORIZED, "the token is missing or wrong")
        origin = headers.get("Origin")
        if (
            origin is not None
            and origin not in self.origins
            and _split(origin, f"the origin {origin!r:.80}").netloc != host
        ):
            raise Refusal(HTTPStatus.FORBIDDEN, f"pages of {origin!r} may not connect")

    def _presents_token(self, path: str, headers: Mapping[str, str]) -> bool:
        scheme, _, given = headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            given = parse_qs(urlsplit(path).query).get("token", [""])[0]
        # Takes the same time wherever the first difference is.
        presented, token = (text.encode("utf-8", "surrogateescape") for text in (given.strip(), self.token or ""))
        return hmac.compare_digest(presented, token)
