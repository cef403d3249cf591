"""Fragments of SQL that several concepts share, for statements that are put together from text."""

# A customer's display name is the account's if the customer has joined one (docs/product.md#names-and-privacy). `c` is
# the customer in the statement.
ACCOUNT = "LEFT JOIN customers account ON account.id = c.account_belongs_to"
NAME = "coalesce(account.display_name, c.display_name)"
# ORDER BY for the searches of a payment request: all but the newest have failed or were cancelled. A session that has
# not failed comes first, because creation times of different processes may be out of order.
NEWEST_FIRST = "is_unpaired(status), created_at DESC, id DESC"
# The id of the oldest search; null without one. Only searching sessions have open invitations, so a statement that
# looks for those of all sessions reads no older month. OFFSET 0 keeps PostgreSQL from walking all sessions in order of
# id.
OLDEST_SEARCH = """(
    SELECT o.id
    FROM (SELECT id FROM chat_sessions WHERE status = 'searching' OFFSET 0) AS o
    ORDER BY o.id
    LIMIT 1
  )"""
