"""The overview lists what must be set before customers can be served."""

import types
from typing import Any

import pytest

from core.config.cache import Config
from core.desk import figures
from core.settings.environment import read
from tests.stack import World

pytestmark = pytest.mark.anyio


async def test_overview_lists_what_is_not_set_up(world: World) -> None:
    operator = await world.operator()
    seeded = (await operator.get("/internal/config/support_handles"))["value"]

    async def gaps(**contacts: Any) -> list[str]:
        await world.config("support_handles", {**seeded, **contacts})
        return (await operator.get("/internal/overview"))["not_set_up"]

    # Codes of this service go to a provider, pushes do not, and there is no gateway.
    assert await gaps() == ["support_handles", "gateway_enabled", "push_sender"]
    ours = {"label": "WhatsApp", "deeplink": "https://wa.me/6281234567890"}
    assert "support_handles" in await gaps(primary=ours)
    assert "support_handles" in await gaps(secondary=ours, primary={**seeded["primary"], "label": "Help"})
    assert "support_handles" in await gaps(secondary=ours, primary={**ours, "deeplink": "HTTPS://wa.me/62800000000/"})
    assert await gaps(primary=ours, secondary=ours) == ["gateway_enabled", "push_sender"]
    await world.config("support_handles", seeded)


def test_overview_lists_senders_and_gateway_by_their_settings() -> None:
    gateway = {"GATEWAY_ENABLED": "true", "GATEWAY_BASE_URL": "http://127.0.0.1:9", "GATEWAY_SECRET_KEY": "k"}
    codes = {"OTP_SENDER": "http", "OTP_HTTP_URL": "http://127.0.0.1:9"}
    pushes = {"PUSH_SENDER": "fcm", "FCM_PROJECT_ID": "p", "FCM_CREDENTIALS_FILE": "f"}
    rows = ["support_handles"]
    for environ, left in (
        ({}, ["gateway_enabled", "otp_sender", "push_sender"]),
        (gateway, ["otp_sender", "push_sender"]),
        (gateway | codes, ["push_sender"]),
        (gateway | codes | pushes, []),
    ):
        runtime: Any = types.SimpleNamespace(settings=read(environ), config=Config())
        assert figures.gaps(runtime) == rows + left
