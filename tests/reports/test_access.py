"""The dashboard answers reads with its token and its own name; every other request is refused."""

from __future__ import annotations

from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.reports.dashboard import Address, Refusal, check_request, is_local_name

TOKEN = "k7f3aaZ-_x"  # noqa: S105 - of no dashboard
HERE = "127.0.0.1:8123"


def status(method: str = "GET", host: str | None = HERE, target: str = f"/{TOKEN}/") -> HTTPStatus:
    found = check_request(method, host, target, token=TOKEN)
    return found.status if isinstance(found, Refusal) else HTTPStatus.OK


@pytest.mark.parametrize(
    ("target", "run"),
    [(f"/{TOKEN}/", ""), (f"/{TOKEN}/?x=1", ""), (f"/{TOKEN}/run/bs654b", "bs654b"), (f"/{TOKEN}/run/12%2E0", "12.0")],
)
def test_pages_have_addresses(target: str, run: str) -> None:
    assert check_request("GET", HERE, target, token=TOKEN) == Address(run)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE", "get", "X"])
def test_only_reads_are_answered(method: str) -> None:
    assert status(method) is HTTPStatus.METHOD_NOT_ALLOWED


@pytest.mark.parametrize("host", ["127.0.0.1:8123", "127.0.0.1", "localhost:9000", "LOCALHOST", "[::1]:80"])
def test_this_host_has_several_names_and_any_port(host: str) -> None:
    assert status(host=host) is HTTPStatus.OK


@pytest.mark.parametrize(
    "host",
    [
        *(
            None,
            "",
            "evil.example",
            "127.0.0.1.evil.example:8123",
            "localhost.evil.example",
            "evil.example:80@127.0.0.1",
        ),
        *("127.0.0.1:8123 evil", "127.0.0.2", "0.0.0.0:8123", "[::]", "127.0.0.1:x", "localhost:"),
    ],
)
def test_another_name_is_refused(host: str | None) -> None:
    assert not is_local_name(host)
    assert status(host=host) is HTTPStatus.FORBIDDEN


@pytest.mark.parametrize(
    "target",
    [
        *("/", "", "//", "/x/", f"/{TOKEN[:-1]}/", f"/{TOKEN}x/", f"/{TOKEN.upper()}/", f"//{TOKEN}/"),
        *(f"/run/{TOKEN}/", "http://[/", "/\udcff/", f"/%6b{TOKEN[1:]}/"),
    ],
)
def test_a_wrong_token_is_refused(target: str) -> None:
    assert status(target=target) is HTTPStatus.FORBIDDEN


@pytest.mark.parametrize(
    "target", ["run/", "run", "run/a/b", "run/../x", "etc/passwd", "..", "../..", "static/x.js", "run//x"]
)
def test_other_addresses_have_no_page(target: str) -> None:
    assert status(target=f"/{TOKEN}/{target}") is HTTPStatus.NOT_FOUND


def test_an_address_without_its_last_slash_has_no_page() -> None:
    assert status(target=f"/{TOKEN}") is HTTPStatus.NOT_FOUND


def test_an_overlong_address_is_refused() -> None:
    assert status(target=f"/{TOKEN}/run/{'x' * 3000}") is HTTPStatus.REQUEST_URI_TOO_LONG


@given(st.text(), st.one_of(st.none(), st.text()), st.text())
def test_nothing_is_answered_without_the_token(method: str, host: str | None, target: str) -> None:
    assert isinstance(check_request(method, host, target, token=TOKEN), Refusal)
