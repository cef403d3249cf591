"""The pages of the development identity provider, where a person signs in with any e-mail address.

An app opens a page in a popup or a frame, as /dev/identity-a?origin=…&nonce=…, and receives
`{type: "identity", provider, identity_token}` by postMessage. The pages exist only with ENVIRONMENT=development.
"""

import base64
import hashlib
import html
import urllib.parse
from typing import Any

from litestar import Request, Response, get, post

from api.auth import anyone
from core.flows import development_identity
from core.runtime import Runtime

PERSONS = ("dewi@example.test", "budi@example.test", "sari@example.test")
# It hands the token to the page that opened this one. Only a page of the checked origin can receive it.
SCRIPT = """
const { provider, origin, token } = document.body.dataset;
const receiver = window.opener ?? (window.parent === window ? null : window.parent);
if (origin && receiver) receiver.postMessage({ type: "identity", provider, identity_token: token }, origin);
if (origin && window.opener) window.close();
"""
SCRIPT_HASH = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Identity provider {name} (development)</title><style>:root{{color-scheme:light dark}}
body{{font:16px system-ui;max-width:24rem;margin:2rem auto;padding:0 1rem}}
button,input{{font:inherit;padding:.6rem 1rem;width:100%;box-sizing:border-box;margin:.3rem 0}}
textarea{{width:100%;box-sizing:border-box}}</style></head>
<body {data}><main><h1>Identity provider {name}</h1><p>For development: no password, any address.</p>{content}</main>
</body></html>"""
FORM = """<form method="post"><input type="hidden" name="origin" value="{origin}">
<input type="hidden" name="nonce" value="{nonce}">{persons}</form>
<form method="post"><input type="hidden" name="origin" value="{origin}"><input type="hidden" name="nonce" value="{nonce}">
<label for="email">Another e-mail address</label><input id="email" name="email" type="email" required maxlength="254"
autocomplete="off"><button>Sign in</button></form>"""
PERSON = '<button name="email" value="{email}">{email}</button>'
SIGNED = """<p>Signed in as {email}.</p><label for="token">Identity token</label>
<textarea id="token" rows="8" readonly>{token}</textarea><script>{script}</script>"""


def _letter(request: Request[Any, Any, Any]) -> str:
    """Return the provider's letter, `a` or `b`."""
    return request.scope["path"].split("/")[2].removeprefix("identity-")


def _page(runtime: Runtime, letter: str, content: str, **data: str) -> Response[str]:
    attributes = " ".join(f'data-{name}="{html.escape(value)}"' for name, value in data.items())
    text = PAGE.format(name=letter.upper(), data=attributes, content=content)
    # Apps of other origins may show the page in a frame, too.
    parents = " ".join(["'self'", *(one for one in runtime.settings.public_cors_origins if ";" not in one)])
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{SCRIPT_HASH}'; form-action 'self';"
        f" base-uri 'none'; frame-ancestors {parents}"
    )
    headers = {"Content-Security-Policy": policy, "X-Frame-Options": "SAMEORIGIN"}
    return Response(text, media_type="text/html", headers=headers)


def _fields(text: str) -> dict[str, str]:
    """Return the fields of a query or a form, each field's first value."""
    return {name: values[0] for name, values in urllib.parse.parse_qs(text).items()}


def _origin(runtime: Runtime, request: Request[Any, Any, Any], given: dict[str, str]) -> str:
    host = request.headers.get("host", "")
    return development_identity.check_origin(runtime.settings, given.get("origin"), host=host) or ""


@get(["/dev/identity-a", "/dev/identity-b"], include_in_schema=False, **anyone())
async def show(request: Request[Any, Any, Any], runtime: Runtime) -> Response[str]:
    """Show the sample persons, and a field for another e-mail address."""
    letter = _letter(request)
    development_identity.provider(runtime, letter)
    given = _fields(request.scope["query_string"].decode("latin-1"))
    hidden = {"origin": html.escape(_origin(runtime, request, given)), "nonce": html.escape(given.get("nonce", ""))}
    persons = "".join(PERSON.format(email=email) for email in PERSONS)
    return _page(runtime, letter, FORM.format(persons=persons, **hidden))


@post(["/dev/identity-a", "/dev/identity-b"], status_code=200, include_in_schema=False, **anyone(foreign_body=True))
async def sign_in(request: Request[Any, Any, Any], runtime: Runtime) -> Response[str]:
    """Sign a person in, and hand the identity token to the app."""
    letter = _letter(request)
    given = _fields((await request.body()).decode(errors="replace"))
    email, nonce = given.get("email", ""), given.get("nonce")
    origin = _origin(runtime, request, given)
    token = development_identity.sign_token(runtime, letter, email=email, nonce=nonce)
    content = SIGNED.format(email=html.escape(email), token=token, script=SCRIPT)
    return _page(runtime, letter, content, provider=letter, origin=origin, token=token)


@get(["/dev/identity-a/jwks.json", "/dev/identity-b/jwks.json"], include_in_schema=False, **anyone())
async def keys(request: Request[Any, Any, Any], runtime: Runtime) -> dict[str, Any]:
    """Return the provider's public keys, as a JWK set."""
    return development_identity.published_keys(runtime, _letter(request))


ROUTES = [show, sign_in, keys]
