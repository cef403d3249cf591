"""Which origins have the service's own host."""

from realtime.admission import is_own_host
from tests.each import for_each

SAME = (
    ("https://api.example.com", "api.example.com"),
    ("http://api.example.com", "api.example.com:443"),
    ("https://api.example.com:443", "api.example.com"),
    ("http://api.example.com:80", "api.example.com:"),
    ("https://API.Example.com:8443", "api.example.COM:8443"),
    ("wss://10.0.2.2:8010", "10.0.2.2:8010"),
    ("http://[::1]:8010", "[::1]:8010"),
    ("https://[2001:db8::1]", "[2001:DB8::1]:443"),
)
OTHER = (
    ("https://api.example.com:8443", "api.example.com"),
    ("https://api.example.com", "api.example.com:8443"),
    ("https://api.example.com.evil.example", "api.example.com"),
    ("https://evil.example", "api.example.com"),
    ("https://api.example.com@evil.example", "api.example.com"),
    ("https://evil.example/api.example.com", "api.example.com"),
    ("https://api.example.com/", "api.example.com"),
    ("api.example.com", "api.example.com"),
    ("://api.example.com", "api.example.com"),
    ("capacitor://localhost", "api.example.com"),
    ("file://", ""),
    ("null", "null"),
    ("", ""),
    ("https://", ""),
)


@for_each(("origin", "host"), SAME)
def test_origin_with_the_host_of_the_request_is_own(origin: str, host: str) -> None:
    assert is_own_host(origin, host)


@for_each(("origin", "host"), OTHER)
def test_origin_with_another_host_or_port_is_foreign(origin: str, host: str) -> None:
    assert not is_own_host(origin, host)
