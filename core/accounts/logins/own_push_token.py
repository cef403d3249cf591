"""The push token that a user's own row repeats, for reads of the control center (docs/product.md#devices).

Lock order: auth sessions before their customer or mitra.
"""

from core.accounts.customers import store as customers
from core.accounts.logins import push_tokens
from core.accounts.mitras import store as mitras
from core.base.actor import UserType
from core.storage.transaction import Tx


async def refresh_push_token(tx: Tx, user_type: str, user_id: str) -> None:
    """Set the user's own push token to the newest one of their devices.

    `user_type` is `customer` or `mitra`.
    """
    store = {UserType.CUSTOMER.value: customers, UserType.MITRA.value: mitras}[user_type]
    # Lock first: the read must see what the previous holder of the lock did to the user's devices.
    await store.lock(tx, user_id)
    await store.set_push_token(tx, user_id, await push_tokens.newest(tx, user_id))
