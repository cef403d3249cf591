"""How a customer is called: by the account's name, also where the account was joined later (specification, Core rules 8).

Parts of a statement, beside a customer `c`.
"""

ACCOUNT = "LEFT JOIN customers account ON account.id = c.account_belongs_to"
NAME = "coalesce(account.display_name, c.display_name)"
