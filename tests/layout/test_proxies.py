"""The part of HAProxy's configuration that docs/operating.md shows agrees with the complete one in `deploy`."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SHOWN = ROOT / "docs" / "operating.md"
COMPLETE = ROOT / "deploy" / "haproxy.cfg"
# How a process that stops is found, and where its requests go.
DIRECTIVES = (
    r"option redispatch .*",
    r"retries .*",
    r"timeout (?:connect|check|tunnel) .*",
    r"option httpchk .*",
    r"http-check expect .*",
    r"inter \S+ fastinter \S+ fall \d rise \d",
    r"check port \d+",
    r"balance .*",
)


@pytest.mark.parametrize("directive", DIRECTIVES)
def test_shown_configuration_of_haproxy_has_the_directives_of_the_complete_one(directive: str) -> None:
    shown = re.search(r"```haproxy\n(.*?)```", SHOWN.read_text(), re.DOTALL)
    assert shown is not None
    found = set(re.findall(directive, shown[1]))
    assert found == set(re.findall(directive, COMPLETE.read_text()))
    assert found
