"""The pages of the development identity provider, where a person signs in with any e-mail address.

An app opens a page in a popup or a frame, as /dev/identity-a?origin=…&nonce=…, and receives
`{type: "identity", provider, identity_token}` by postMessage. The pages exist only with DEVELOPMENT_IDENTITIES=true.
`?lang=id|en` and `?theme=light|dark` set their language and colours.
"""

import base64
import hashlib
import html
import urllib.parse
from typing import Any

from litestar import Request, Response, get, post

from api.auth import anyone
from core.accounts.logins import development_identity
from core.base import languages
from core.base.languages import Language, Text
from core.runtime.container import Runtime

PERSONS = ("dewi@example.test", "budi@example.test", "sari@example.test")
# It hands the token to the page that opened this one. Only a page of the checked origin can receive it.
SCRIPT = """
const { provider, origin, token } = document.body.dataset;
const receiver = window.opener ?? (window.parent === window ? null : window.parent);
if (origin && receiver) receiver.postMessage({ type: "identity", provider, identity_token: token }, origin);
if (origin && window.opener) window.close();
"""
SCRIPT_HASH = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
PAGE = """<!doctype html><html lang="{language}" {theme}><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>
<link rel="icon" href="/try/icon.svg" type="image/svg+xml"><link rel="stylesheet" href="/try/shared/base.css">
<link rel="stylesheet" href="/try/shared/parts.css"><link rel="stylesheet" href="/try/pay/pay.css">
<body {data}><main class="card"><h1>{title}</h1><p class="quiet">{note}</p>{content}</main></body></html>"""
FORM = """<form method="post">{hidden}{persons}</form>
<form method="post">{hidden}<label for="email">{other}</label><input id="email" name="email" type="email" required
maxlength="254" autocomplete="off"><button class="primary">{sign_in}</button></form>"""
HIDDEN = '<input type="hidden" name="{name}" value="{value}">'
PERSON = '<button name="email" value="{email}">{email}</button>'
SIGNED = """<p role="status">{signed}</p><label for="token">{label}</label>
<textarea id="token" rows="8" readonly>{token}</textarea><script>{script}</script>"""
TITLE = Text(en="Identity provider {name} (development)", id="Penyedia identitas {name} (pengembangan)")
NOTE = Text(en="For development: no password, any address.", id="Untuk pengembangan: tanpa kata sandi, alamat apa pun.")
OTHER = Text(en="Another e-mail address", id="Alamat surel lain")
SIGN_IN = Text(en="Sign in", id="Masuk")
SIGNED_IN = Text(en="Signed in as {email}.", id="Masuk sebagai {email}.")
TOKEN = Text(en="Identity token", id="Token identitas")


def _letter(request: Request[Any, Any, Any]) -> str:
    """Return the provider's letter, `a` or `b`."""
    return request.scope["path"].split("/")[2].removeprefix("identity-")


def _language(request: Request[Any, Any, Any]) -> Language:
    chosen = languages.parse_locale(request.query_params.get("lang"))
    return chosen or languages.of_errors(request.headers.get("accept-language"))


def _page(request: Request[Any, Any, Any], runtime: Runtime, content: str, **data: str) -> Response[str]:
    language, theme = _language(request), request.query_params.get("theme")
    text = PAGE.format(
        language=language.value,
        theme=f'data-theme="{theme}"' if theme in ("light", "dark") else "",
        title=TITLE.said_in(language).format(name=_letter(request).upper()),
        note=NOTE.said_in(language),
        data=" ".join(f'data-{name}="{html.escape(value)}"' for name, value in data.items()),
        content=content,
    )
    # Apps of other origins may show the page in a frame, too.
    parents = " ".join(["'self'", *(one for one in runtime.settings.public_cors_origins if ";" not in one)])
    policy = (
        f"default-src 'none'; style-src 'self'; img-src 'self'; script-src 'sha256-{SCRIPT_HASH}'; form-action 'self';"
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
    kept = {"origin": _origin(runtime, request, given), "nonce": given.get("nonce", "")}
    hidden = "".join(HIDDEN.format(name=name, value=html.escape(value)) for name, value in kept.items())
    persons = "".join(PERSON.format(email=email) for email in PERSONS)
    language = _language(request)
    words = {"other": OTHER.said_in(language), "sign_in": SIGN_IN.said_in(language)}
    return _page(request, runtime, FORM.format(hidden=hidden, persons=persons, **words))


@post(["/dev/identity-a", "/dev/identity-b"], status_code=200, include_in_schema=False, **anyone(foreign_body=True))
async def sign_in(request: Request[Any, Any, Any], runtime: Runtime) -> Response[str]:
    """Sign a person in, and hand the identity token to the app."""
    letter = _letter(request)
    given = _fields((await request.body()).decode(errors="replace"))
    email, nonce = given.get("email", ""), given.get("nonce")
    origin = _origin(runtime, request, given)
    token = development_identity.sign_token(runtime, letter, email=email, nonce=nonce)
    language = _language(request)
    signed = SIGNED_IN.said_in(language).format(email=html.escape(email))
    content = SIGNED.format(signed=signed, label=TOKEN.said_in(language), token=token, script=SCRIPT)
    return _page(request, runtime, content, provider=letter, origin=origin, token=token)


@get(["/dev/identity-a/jwks.json", "/dev/identity-b/jwks.json"], include_in_schema=False, **anyone())
async def keys(request: Request[Any, Any, Any], runtime: Runtime) -> dict[str, Any]:
    """Return the provider's public keys, as a JWK set."""
    return development_identity.published_keys(runtime, _letter(request))


ROUTES = [show, sign_in, keys]
