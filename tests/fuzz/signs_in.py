"""Run in the environment of the generated client: sign in anonymously and read the profile. Usage: signs_in.py
PUBLIC_ADDRESS
"""

import sys

from sesi_client import AuthenticatedClient, Client  # type: ignore[import-not-found]
from sesi_client.api.logins import logins_sign_in_anonymously  # type: ignore[import-not-found]
from sesi_client.api.profile import profile_customer_me  # type: ignore[import-not-found]
from sesi_client.models import Customer, CustomerTokens  # type: ignore[import-not-found]

address = sys.argv[1]
tokens = logins_sign_in_anonymously.sync(client=Client(base_url=address))
assert isinstance(tokens, CustomerTokens), tokens
with AuthenticatedClient(base_url=address, token=tokens.access_token) as client:
    me = profile_customer_me.sync(client=client)
assert isinstance(me, Customer), me
assert me.id == tokens.customer.id
assert me.is_anonymous
print(f"The generated client signed in as {me.id}.")
