"""A change in which domains above take part is never made without them."""

import datetime as dt
from collections.abc import Awaitable, Callable

import pytest

from core.base.actor import UserType
from core.events.changes import MitraSignedOut, Renaming
from core.storage.transaction import Tx


async def _rename(tx: Tx) -> None:
    async with tx.during(Renaming(party_ids=["a"], side=UserType.CUSTOMER)):
        raise AssertionError("the change was made")


async def _sign_out(tx: Tx) -> None:
    await tx.tell(MitraSignedOut(mitra_id="a"))


@pytest.mark.anyio
@pytest.mark.parametrize("change", [_rename, _sign_out])
async def test_change_in_a_transaction_without_a_port_is_a_runtime_error(
    change: Callable[[Tx], Awaitable[None]],
) -> None:
    with pytest.raises(RuntimeError, match="open the runtime"):
        await change(Tx(None, lambda: dt.datetime.now(dt.UTC)))
