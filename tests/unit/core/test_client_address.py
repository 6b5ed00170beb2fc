"""Client addresses as the keys of limits."""

from app.core.client_address import UNKNOWN, group_address
from tests.harness.cases import for_each


@for_each(
    ("host", "group"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2::", "2001:db8:1:2::/64"),
        ("[2001:db8::1]", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::ffff:c000:201", "192.0.2.1"),
        ("::1", "::/64"),
        ("", UNKNOWN),
        ("unix:", UNKNOWN),
        ("192.0.2.1:80", UNKNOWN),
        ("192.0.2.256", UNKNOWN),
        ("testclient", UNKNOWN),
    ],
)
def test_a_group_is_an_address_of_ipv4_or_a_network_of_ipv6(host: str, group: str) -> None:
    assert group_address(host) == group
