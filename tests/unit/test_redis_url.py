"""The forms of REDIS_URL: one server, sentinels, or the nodes of a cluster."""

import pytest

from core.settings.redis_url import Address, Layout, read
from tests.each import for_each


@pytest.mark.parametrize(
    "url",
    ["redis://localhost", "rediss://user:word@redis:6380/2", "redis://[::1]:6379", "unix:///run/valkey.sock?db=1"],
)
def test_url_of_one_server_is_left_to_the_client(url: str):
    found = read(url)
    assert (found.layout, found.url, found.seeds) == (Layout.SINGLE, url, ())


def test_cluster_has_nodes_with_the_port_of_data_servers():
    found = read("redis+cluster://one,two:7000,[::1]:7001")
    assert found.layout is Layout.CLUSTER
    assert found.seeds == (Address("one", 6379), Address("two", 7000), Address("::1", 7001))
    assert found.options == {}


def test_sentinels_have_a_service_and_their_own_port():
    found = read("redis+sentinel://one,two:7000/main")
    assert found.layout is Layout.SENTINEL
    assert found.seeds == (Address("one", 26379), Address("two", 7000))
    assert found.service == "main"
    assert read("redis+sentinel://one/main/3").options == {"db": 3}


def test_user_and_password_are_for_data_servers_and_tls_is_for_all():
    found = read("rediss+sentinel://sesi:p%40ss@one,two/main?sentinel_password=word&ssl_cert_reqs=none")
    assert found.options == {"username": "sesi", "password": "p@ss", "ssl": True, "ssl_cert_reqs": "none"}
    assert found.sentinel_options == {"password": "word", "ssl": True, "ssl_cert_reqs": "none"}


@pytest.mark.parametrize("url", ["rediss+cluster://:hunter2@one,two", "rediss+sentinel://:hunter2@one/main"])
def test_passwords_are_not_shown(url: str):
    assert "hunter2" not in repr(read(url))


@for_each(
    "url",
    [
        "localhost:6379",
        "http://localhost",
        "redis+other://one",
        "http+cluster://one",
        "redis+cluster://",
        "redis+cluster://one,,two",
        "redis+cluster://one:port",
        "redis+cluster://one/1",  # a cluster has no numbered databases
        "redis+sentinel://one,two",
        "redis+sentinel://one/",
        "redis+sentinel://one/main/first",
    ],
)
def test_other_forms_are_refused(url: str):
    with pytest.raises(ValueError):  # noqa: PT011 - the setting's own message follows
        read(url)
