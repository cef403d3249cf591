"""Rules of waves: how many mitras a blast asks at a time (docs/product.md#waves)."""

import datetime as dt

import attrs

# One transaction inserts at most this many invitations, so that an acceptance never waits long for the session's lock.
# They take a third of a second; a statement may take five, so a database ten times slower still makes them.
INVITED_AT_ONCE = 1_000


@attrs.frozen(kw_only=True)
class Waves:
    """The configured waves of blasts: how many mitras a wave asks, and how long it lasts. 0: all at once, no waves."""

    size: int
    length: dt.timedelta


@attrs.frozen(kw_only=True)
class Wave:
    """The newest wave of a blast. Numbers begin with 1 and continue through all rounds; 0: no wave yet.

    `ends_at` is None if the wave has ended without a mitra for the next one, or with its round. Then the next mitra to
    become eligible begins a new wave.
    """

    number: int = 0
    ends_at: dt.datetime | None = None


@attrs.frozen(kw_only=True)
class Asking:
    """The wave for which mitras may be asked now, and how many of the eligible ones: with waves, longest waiting
    first."""

    wave: Wave = Wave()
    at_most: int = INVITED_AT_ONCE


NO_WAVES = Waves(size=0, length=dt.timedelta())
EVERYONE = Asking()  # all eligible mitras, in transactions of INVITED_AT_ONCE


def ask_now(wave: Wave, waves: Waves, *, asked: int, round_ends_at: dt.datetime, now: dt.datetime) -> Asking:
    """Return the wave for which mitras may be asked now, and how many of them one transaction asks.

    `wave` is the newest one and has `asked` invitations. A wave that is not full takes the next mitras at once; they
    are newcomers, or the rest of a wave whose process has died. Without waves all mitras are asked.
    """
    if waves.size == 0:
        return Asking(wave=Wave(number=wave.number))
    if wave.ends_at is not None and now < wave.ends_at:
        return Asking(wave=wave, at_most=min(INVITED_AT_ONCE, max(0, waves.size - asked)))
    ends_at = min(now + waves.length, round_ends_at)
    return Asking(wave=Wave(number=wave.number + 1, ends_at=ends_at), at_most=min(INVITED_AT_ONCE, waves.size))


def wave_after(wave: Wave, asking: Asking, *, invited: int) -> Wave:
    """Return the newest wave after `invited` mitras were asked; `wave` was the newest one before.

    A new wave begins with its first mitra. If there is none, no wave is running.
    """
    if asking.wave.number == wave.number or invited:
        return asking.wave
    return Wave(number=wave.number)


def is_cut_short(asking: Asking, *, invited: int) -> bool:
    """Return whether another transaction must go on at once, because this one has asked as many as it may."""
    return asking.at_most == INVITED_AT_ONCE == invited
