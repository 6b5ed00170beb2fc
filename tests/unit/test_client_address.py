"""Which addresses count as one client."""

import pytest

from app.client_address import address_group


@pytest.mark.parametrize(
    ("host", "group"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("unknown", "unknown"),
        ("x" * 5000, "x" * 64),
        ("", ""),
    ],
)
def test_the_group_of_an_address(host: str, group: str) -> None:
    assert address_group(host) == group
