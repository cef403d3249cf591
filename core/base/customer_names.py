"""SQL for a customer's display name: the account's name if the customer has joined one.

Parts of a statement in which `c` is the customer. See docs/product.md#names-and-privacy.
"""

ACCOUNT = "LEFT JOIN customers account ON account.id = c.account_belongs_to"
NAME = "coalesce(account.display_name, c.display_name)"
