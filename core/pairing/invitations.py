"""Ask mitras in a running search, all at once or in waves (docs/product.md#waves).

core/pairing/rules.py decides which wave asks, and how many. All functions need the session's lock, and the session must
be searching: then no invitation is made after an acceptance or a cancellation.
"""

from collections.abc import Sequence

from core.accounts.mitras.rules import availability_policy
from core.config.cache import Config
from core.deliveries import events
from core.events.signals import BlastCutShort
from core.pairing import announce as announce_pairing
from core.pairing import round_records, rules
from core.pairing import store as pairing
from core.pairing.rules import NO_WAVES, Response, Round, Search, Wave, Waves
from core.pairing.store import Invited
from core.sessions import store as sessions
from core.sessions.store import Session
from core.storage.transaction import Tx


def waves(config: Config) -> Waves:
    """Return the waves of blasts as they are configured now."""
    return Waves(size=config.number("blast_size"), length=config.seconds("blast_wave_seconds"))


async def invite(
    tx: Tx, session_id: str, search: Search, config: Config, *, only: Sequence[str] | None = None
) -> Invited:
    """Invite the eligible mitras that the search may ask now, and store its wave. The caller sends their requests.

    `only` limits the mitras while blasts have no waves; waves ask in the order of the queue.
    """
    configured, asked = NO_WAVES if search.is_targeted else waves(config), 0
    if configured.size and search.wave.ends_at is not None:
        asked = await pairing.asked_in_wave(tx, session_id, search.wave.number)
    asking = rules.ask_now(search.wave, configured, asked=asked, round_ends_at=search.round.ends_at, now=tx.now)
    invited = Invited(mitra_ids=[], any_new=False)
    if asking.at_most:
        invited = await pairing.invite(
            tx,
            session_id,
            availability_policy(config),
            round_number=search.round.number,
            answer_by=search.round.ends_at,
            asking=asking,
            only=only if asking.wave.ends_at is None else None,
        )
    count = len(invited.mitra_ids)
    await _keep_wave(tx, session_id, search, rules.wave_after(search.wave, asking, invited=count))
    if rules.is_cut_short(asking, invited=count):
        tx.emit(BlastCutShort(session_id=session_id))
    return invited


async def _keep_wave(tx: Tx, session_id: str, search: Search, wave: Wave) -> None:
    if wave == search.wave:
        return
    await sessions.set_wave(tx, session_id, wave_number=wave.number, wave_ends_at=wave.ends_at)
    events.deadline(tx, wave.ends_at)


async def ask_more(
    tx: Tx, session_id: str, search: Search, config: Config, *, only: Sequence[str] | None = None
) -> list[str]:
    """Ask the eligible mitras that the search may ask now (of `only`, see `invite`). Return their ids.

    The customer is sent the larger number of asked mitras REPEAT_AFTER later.
    """
    invited = await invite(tx, session_id, search, config, only=only)
    await announce_pairing.chat_requests(tx, session_id, invited.mitra_ids)
    if invited.any_new:
        repeat_at = tx.now + rules.REPEAT_AFTER
        await sessions.plan_repeat(tx, session_id, at=repeat_at)
        events.deadline(tx, repeat_at)
    return invited.mitra_ids


async def begin_round(tx: Tx, session_id: str, search: Search, following: Round, config: Config) -> list[str]:
    """Move a search to its next round, which is a blast's, and ask its first mitras. Return their ids.

    The caller must have ended the round before with `end_round`.
    """
    await sessions.begin_round(tx, session_id, round_number=following.number, round_ends_at=following.ends_at)
    await round_records.begin(tx, [session_id], availability_policy(config))
    events.deadline(tx, following.ends_at)
    return await ask_more(tx, session_id, rules.in_round(search, following), config)


async def end_round(tx: Tx, session_id: str, response: Response) -> list[str]:
    """Close the open invitations of a search with this response, and end its round. Return the invited mitras' ids."""
    closed = await pairing.close_open(tx, session_id, response)
    await round_records.end(tx, [session_id])
    return closed


async def end_answered_wave(tx: Tx, session: Session) -> None:
    """End the search's wave early if none of its invitations is open any longer, so that the next wave follows."""
    if session.wave_ends_at is not None and await sessions.end_answered_wave(tx, session.id):
        events.deadline(tx, tx.now)
