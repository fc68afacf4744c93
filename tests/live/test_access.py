"""Tokens, hosts and origins."""

import pytest

from s7.live.access import Access, Refusal, is_loopback, path_of

HOME = {"Host": "127.0.0.1:8077"}


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "localhost", "LOCALHOST", "::1", "[::1]"])
def test_loopback_hosts(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "robot.example", "127.0.0.1.evil.example", ""])
def test_other_hosts(host):
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/", HOME),
        ("/stream", HOME | {"Origin": "http://127.0.0.1:8077"}),
        ("/stream", {"Host": "[::1]:8077", "Origin": "http://[::1]:8077"}),
        ("/stream", HOME | {"Origin": "https://robots.example"}),
    ],
)
def test_admitted_without_a_token(path, headers):
    Access(origins=["https://robots.example"]).check(path, headers)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example:8077", "Origin": "http://evil.example:8077"}, 403),  # its name points to 127.0.0.1
        (HOME | {"Origin": "http://evil.example"}, 403),
        (HOME | {"Origin": "null"}, 403),
        (HOME | {"Origin": "http://127.0.0.1:9999"}, 403),
        ({}, 403),
    ],
)
def test_pages_of_other_sites_are_refused(headers, status):
    with pytest.raises(Refusal) as refusal:
        Access().check("/stream", headers)
    assert refusal.value.status == status


def test_a_token_in_the_query_or_in_a_header():
    access = Access("secret")
    remote = {"Host": "10.0.0.5:8077"}
    access.check("/?token=secret", remote)
    access.check("/stream?session=a&token=secret", remote | {"Origin": "http://10.0.0.5:8077"})
    access.check("/metrics", remote | {"Authorization": "Bearer secret"})
    wrong = [("/", {}), ("/?token=secre", {}), ("/?token=", {}), ("/", {"Authorization": "Bearer no"})]
    wrong += [("/", {"Authorization": "Bearer \udcff"})]  # a byte that is not ASCII
    for path, headers in [*wrong, ("/?token=%FF", {}), ("/", {"Authorization": "Basic secret"})]:
        with pytest.raises(Refusal, match="the token is missing or wrong") as refusal:
            access.check(path, remote | headers)
        assert refusal.value.status == 401
    with pytest.raises(Refusal, match="may not connect"):
        access.check("/stream?token=secret", remote | {"Origin": "http://evil.example"})


def test_what_is_not_an_address_is_a_bad_request():
    for check in (
        lambda: path_of("//[/stream"),
        lambda: Access().check("/", {"Host": "["}),
        lambda: Access().check("/", HOME | {"Origin": "http://["}),
    ):
        with pytest.raises(Refusal, match="is not valid") as refusal:
            check()
        assert refusal.value.status == 400
