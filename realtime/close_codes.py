"""Every close code and what the client should do (contract 7)."""

GOING_AWAY = 1012  # reconnect after a random 0 to 5 s
NOT_AUTHENTICATED = 4401  # get a token first
REVOKED = 4403  # sign in again
TOO_SLOW = 4408  # no answer to pings, or too much waiting: reconnect and sync
TOO_MANY_SOCKETS = 4409  # do not reconnect: a newer socket of yours took the place
TOO_FAST = 4429  # reconnect, and send less
