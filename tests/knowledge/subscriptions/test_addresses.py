"""Which addresses a webhook may have: public ones, and private ones if the operator allows it."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from app.errors import InvalidInput
from app.knowledge.subscriptions.webhooks import AddressRefused, check_url, choose_address, is_allowed
from tests.knowledge.subscriptions.resolving import resolving

PUBLIC = ["8.8.8.8", "2606:4700:4700::1111", "193.99.144.80"]


PRIVATE = [
    "127.0.0.1", "127.255.0.9", "10.1.2.3", "172.16.0.1", "192.168.0.1", "::1", "fd00::1", "::ffff:10.0.0.1",
    "100.64.0.1",
]  # fmt: skip


NEVER = [
    "169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "0.0.0.0", "::", "224.0.0.1", "ff02::1",  # noqa: S104
    "255.255.255.255", "240.0.0.1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2001:0:7f00:1::", "::7f00:1",
    "168.63.129.16", "fe80::1%eth0", "fec0::1", "192.88.99.1", "::ffff:192.88.99.1", "3fff::1", "192.0.0.8",
    "fd00:ec2::254", "fd20:ce::254",
]  # fmt: skip


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str) -> None:
    assert is_allowed(address, allow_private=False)


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_need_the_operators_permission(address: str) -> None:
    assert not is_allowed(address, allow_private=False)
    if address != "100.64.0.1":  # shared between a carrier's customers, so not a private network
        assert is_allowed(address, allow_private=True)


@pytest.mark.parametrize("address", NEVER)
def test_unroutable_addresses_are_never_allowed(address: str) -> None:
    assert not is_allowed(address, allow_private=True)


@pytest.mark.parametrize(
    "url",
    [
        "", "example.com", "ftp://example.com", "file:///etc/passwd", "http://", "http:///x", "https://u:p@example.com",
        "https://example.com/#x", "http://127.0.0.1/", "http://[::1]/", "http://[::ffff:10.0.0.1]/", "http://localhost:8000",
        "http://db.internal", "http://169.254.169.254/latest", "https://exa mple.com", "https://example.com:99999",
        "https://example.com/" + "x" * 2000, "http://127.0.0.1./", "http://x.localhost.", "https://example.com/\n",
        "http://xn--/", "https://xn--a.example/", "https://" + "a." * 125 + "test/",
    ],
)  # fmt: skip
def test_an_address_that_cannot_be_public_is_refused_at_once(url: str) -> None:
    with pytest.raises(InvalidInput, match="url"):
        check_url(url, allow_private=False)


def test_other_addresses_are_accepted() -> None:
    for url in (
        "https://example.com",
        "http://example.com:8080/a?b=c",
        "https://93.184.216.34/x",
        "https://bücher.example/",
    ):
        check_url(url, allow_private=False)
    check_url("http://localhost:9/", allow_private=True)


async def test_a_name_with_one_private_address_is_refused() -> None:
    for addresses in (["10.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["nonsense"], []):
        with pytest.raises(AddressRefused):
            await choose_address("x.example", 443, resolving(*addresses), allow_private=False)
    chosen = await choose_address("x.example", 443, resolving(*PUBLIC), allow_private=False)
    assert chosen == PUBLIC[0]


def test_the_listed_addresses_are_valid() -> None:
    assert all(ip_address(a.partition("%")[0]) for a in PUBLIC + PRIVATE + NEVER)
