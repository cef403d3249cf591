"""The fixed parts of the OpenAPI documents: texts, the error body, headers and common parameters."""

from collections.abc import Iterable

from api.documents.schemas import Schema
from core.base import field_messages

TITLE = {"public": "Sesi: apps and gateway", "internal": "Sesi: control center"}
ABOUT = """{who}

**Access.** Send `Authorization: Bearer` with the `access_token` of a sign-in. It is valid for `expires_in` seconds. The
`refresh_token` gets new tokens. It can be used once; a retry within 30 s gets the same answer. Tokens of the other listener
are refused. The list of devices shows the `X-Platform` and `X-App-Version` that a sign-in sent. `X-Locale`, `id` or `en`,
sets the language of the device's pushes; it is stored at a sign-in, a refresh or the registration of the push token.

**Errors.** Every refusal has the body `Error`, with a stable `code` for programs and a `message` for people. If it has
`retry_after_seconds`, the header `Retry-After` has the same number. Another user's objects are 404, as if they did not
exist. Unknown fields in a body are 422. A body has at most 64 KiB.

`message` and the messages of fields are in Indonesian or English. `Accept-Language` selects the language, English is the
default, and `Content-Language` names it.

**Lists.** A list has `items`, newest first, and `next_cursor`. Send it as `cursor` to get the next page; it is null on the
last page. `limit` is 1 to 200, by default 50.

**Limits.** {limits} A 429 says how long to wait.

**Time.** All times are ISO 8601 in UTC with `Z`. Every answer has `X-Server-Time`: use it for countdowns, because clocks
of phones are wrong. `X-Request-Id` is taken from the request, or generated; it is returned and logged."""
WHO_IS_IT_FOR = {
    "public": "The interface for the apps of customers and mitras, and for the payment gateway. Chats use WebSockets:"
    " [their frames](/docs/sockets).",
    "internal": "The interface for the control center. Operators have roles, and each route names the permission it needs.",
}
LIMITS = {
    "public": "Requests are limited for each user. Requests without a token, and those of anonymous customers who have"
    " not paid yet, are also limited for each address.",
    "internal": "Requests are limited for each operator, and sign-ins for each address. Too many wrong passwords lock"
    " the sign-in for a time.",
}
# An address of its listener: the document is the same wherever it is served.
SERVERS: list[Schema] = [{"url": "/", "description": "The listener that serves this document."}]
TAGS = {
    "catalogue": "Prices, availability and what an app reads at its start.",
    "chat": "Sessions, messages, extensions, goodbyes, receipts, reports and blocks.",
    "devices": "Signed-in devices and their push tokens.",
    "health": "Whether the process runs.",
    "links": "Ways to sign in to a customer's account.",
    "logins": "Sign-in, refresh and sign-out.",
    "mitra-desk": "A mitra's presence and chat requests.",
    "own-data": "A customer's export and erasure.",
    "pairing": "Searches that were paid before.",
    "payment-webhook": "Calls of the payment gateway.",
    "payments": "Payment requests and transactions.",
    "profile": "The signed-in user.",
}
_ID: Schema = {"type": ["string", "null"], "format": "uuid"}
# What a client may rely on. A code has only the fields that its text in docs/errors.md names.
DETAILS: Schema = {
    "type": "object",
    "description": "More about the refusal. Which fields there are depends on `code`.",
    "additionalProperties": True,
    "properties": {
        "fields": field_messages.SCHEMA,
        "more": {"type": "integer", "description": "The number of further fields that are not valid."},
        "session_id": {**_ID, "description": "The session that is in the way, or was asked for."},
        "payment_request_id": {**_ID, "description": "The payment request that is in the way."},
        "attempts_remaining": {"type": "integer", "minimum": 0, "description": "Tries left for the phone code."},
        "amount": {"type": "integer", "minimum": 0, "description": "The present price in Rupiah (PRICE_CHANGED)."},
        "until": {
            "type": ["string", "null"],
            "format": "date-time",
            "description": "When a block ends (ACCOUNT_BLOCKED).",
        },
        "id": {
            "type": "string",
            "format": "uuid",
            "description": "The object that exists already (TIER_EXISTS, PRICE_SCHEDULED).",
        },
        "request_id": {"type": "string", "description": "The request's id, as in the log (INTERNAL_ERROR)."},
    },
}
ERROR: Schema = {
    "type": "object",
    "description": "A refusal.",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": {"$ref": "#/components/schemas/ErrorCode"},
                "message": {"type": "string"},
                "details": {"$ref": "#/components/schemas/ErrorDetails"},
                "retry_after_seconds": {"type": "integer", "minimum": 0},
            },
        }
    },
}


def error_code(codes: Iterable[str]) -> Schema:
    """Return the schema of error codes: the known ones, and any other, because codes may be added."""
    return {
        "description": "The code of a refusal. New codes may be added: treat an unknown one by its HTTP status.",
        "anyOf": [
            {"type": "string", "enum": sorted(codes)},
            {"type": "string", "pattern": "^[A-Z][A-Z0-9_]*$"},
        ],
    }


HEADERS: Schema = {
    "X-Server-Time": {"description": "The service's time.", "schema": {"type": "string", "format": "date-time"}},
    "X-Request-Id": {"description": "The request's id, as in the log.", "schema": {"type": "string"}},
    "Content-Language": {"description": "The language of the error message.", "schema": {"enum": ["id", "en"]}},
    "Deprecation": {
        "description": "`@` and the Unix time at which the route was deprecated.",
        "schema": {"type": "string"},
    },
    "Sunset": {"description": "The day after which a release may remove the route.", "schema": {"type": "string"}},
    "Link": {
        "description": 'The route that replaces this one: `rel="successor-version"`.',
        "schema": {"type": "string"},
    },
    "Retry-After": {"description": "Seconds to wait before a retry.", "schema": {"type": "integer"}},
}
PARAMETERS: Schema = {
    "X-Request-Id": {
        "name": "X-Request-Id",
        "in": "header",
        "description": "Returned and logged if it is valid; otherwise one is generated.",
        "schema": {"type": "string", "maxLength": 128},
    },
    "Accept-Language": {
        "name": "Accept-Language",
        "in": "header",
        "description": "The language of error messages, `id` or `en`, as browsers send it. The default is English.",
        "schema": {"type": "string"},
        "example": "id-ID, id;q=0.9, en;q=0.8",
    },
    "X-Locale": {
        "name": "X-Locale",
        "in": "header",
        "description": "The language of this device's pushes from now on, `id` or `en`. It is stored with the device; the"
        " default is Indonesian. Other values are ignored.",
        "schema": {"type": "string"},
        "example": "id",
    },
    "X-Platform": {
        "name": "X-Platform",
        "in": "header",
        "description": "The platform of the device, as the list of devices shows it. Only 40 characters are kept.",
        "schema": {"type": "string"},
        "example": "android",
    },
    "X-App-Version": {
        "name": "X-App-Version",
        "in": "header",
        "description": "The version of the app, as the list of devices shows it. Only 40 characters are kept.",
        "schema": {"type": "string"},
        "example": "1.4.0",
    },
    "Idempotency-Key": {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "A retry with the same key and body within 24 h gets the first answer again.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    },
    "X-Callback-Token": {
        "name": "X-Callback-Token",
        "in": "header",
        "description": "The secret that the gateway shares with the service. 401 if it is wrong or missing.",
        "schema": {"type": "string"},
    },
}
