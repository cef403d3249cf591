"""A development service refuses other machines; production refuses plain HTTP (docs/security.md#exposure)."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.security.exposure import ExposedDevelopment, ExposureCheck, HttpsRequired
from core.settings.environment import read
from tests.each import for_each
from tests.unit.test_settings_reading import PRODUCTION

DEVELOPMENT = ExposureCheck(read({}))
HERE = ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "localhost"]
HOSTS = [
    "127.0.0.1",
    "127.0.0.1:8000",
    "[::1]",
    "[::1]:8000",
    "localhost",
    "LOCALHOST:8000",
    "localhost.",
    "app.localhost:1",
]
ELSEWHERE = [
    "203.0.113.9",
    "10.0.2.2",
    "2001:db8::1",
    "::",
    "0.0.0.0",
    "api.example.com",
    "localhost.example.com",
    "x",
    "unknown",
]


def refused(
    check: ExposureCheck = DEVELOPMENT,
    client: str = "127.0.0.1",
    forwarded: tuple[str, ...] = (),
    host: str | None = "127.0.0.1:8000",
    scheme: str | None = None,
) -> bool:
    found = check.refusal_of(path="/api", client=client, forwarded=forwarded, host=host, scheme=scheme)
    return found is ExposedDevelopment


@pytest.mark.parametrize("word", HERE)
def test_request_of_this_machine_is_served(word: str):
    assert not refused(client=word)
    assert not refused(forwarded=(word,))
    assert not refused(forwarded=(f"{word}, 127.0.0.1", word))


@for_each("host", [*HOSTS, None, ""])
def test_host_that_names_this_machine_is_served(host: str | None):
    assert not refused(host=host)
    assert not refused(client="", host=host)  # by a Unix socket


@for_each("word", ELSEWHERE)
def test_any_word_that_names_another_machine_is_refused(word: str):
    assert refused(client=word)
    assert refused(forwarded=(f"127.0.0.1, {word}",))
    assert refused(forwarded=("127.0.0.1", f"{word}, ::1"))
    assert refused(host=f"[{word}]:80" if word.count(":") > 1 else f"{word}:80")


@given(st.ip_addresses())
def test_only_addresses_of_this_machine_are_served(address: ipaddress.IPv4Address | ipaddress.IPv6Address):
    mapped = getattr(address, "ipv4_mapped", None) or address
    assert refused(forwarded=(str(address),)) is not mapped.is_loopback


@given(st.text(), st.lists(st.text()))
def test_any_headers_are_judged(host: str, forwarded: list[str]):
    refused(host=host, forwarded=tuple(forwarded))


@for_each("environ", [{"ALLOW_EXPOSED_DEVELOPMENT": "true"}, PRODUCTION])
@for_each("word", ELSEWHERE)
def test_allowed_development_and_production_serve_other_machines(environ: dict[str, str], word: str):
    check = ExposureCheck(read(environ))
    assert check.refusal_of(path="/api", client=word, forwarded=(word,), host=word, scheme="https") is None


def test_test_environment_refuses_other_machines_too():
    assert refused(ExposureCheck(read({"ENVIRONMENT": "test"})), client="203.0.113.9")


@for_each(
    ("scheme", "expected"),
    [(None, None), ("", None), ("https", None), ("wss", None), ("http", HttpsRequired), ("HTTP", HttpsRequired),
     ("ws", HttpsRequired), (" http , https", HttpsRequired), ("https, http", None)],
)  # fmt: skip
def test_production_refuses_what_its_proxy_received_unencrypted(scheme: str | None, expected: object):
    for settings, judged in ((read(PRODUCTION), expected), (read({}), None)):
        check = ExposureCheck(settings)
        found = check.refusal_of(path="/api", client="127.0.0.1", forwarded=(), host="localhost", scheme=scheme)
        assert found is judged


@pytest.mark.parametrize("environ", [{}, PRODUCTION])
def test_probes_are_answered_wherever_they_come_from(environ: dict[str, str]):
    check = ExposureCheck(read(environ))
    outside = {"client": "203.0.113.9", "forwarded": ("203.0.113.9",), "host": "api.example.com", "scheme": "http"}
    for path in ("/healthz", "/readyz", "/metrics"):
        assert check.refusal_of(path=path, **outside) is None
    for path in ("/", "/healthz/x", "/api/healthz", "", "/metricsx", "//metrics"):
        assert check.refusal_of(path=path, **outside) is not None
