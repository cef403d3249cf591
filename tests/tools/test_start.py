"""The processes of a service as anybody starts them: each by its command, in an interpreter of its own."""

import pytest

from tests.stack import Stack
from tools.service import PROCESSES, Service


@pytest.mark.parametrize("name", PROCESSES)
def test_each_process_starts_by_its_command_and_ends_orderly(name: str) -> None:
    service = Service(durable=False, template=Stack.template, prefix="sesi-test-")
    try:
        service.start(name)
        assert service.stop(name) == 0, service.log(name)
    finally:
        service.close()
