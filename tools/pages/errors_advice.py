"""What an app does after each error code: the last column of docs/errors.md."""

import enum

import attrs


class Repeat(enum.Enum):
    """Whether the same request can succeed later; the value explains it on the page."""

    YES = "repeat it as it is, with the same key, after `retry_after_seconds` or with growing pauses"
    WAIT = "repeat it after `retry_after_seconds`"
    LATER = "it can succeed when the state has changed"
    NO = "the answer stays the same; change the request"


@attrs.frozen(kw_only=True)
class Advice:
    """What a client does about a code. `when` is the cause, for codes without an error class that has it."""

    repeat: Repeat
    then: str
    when: str | None = None


def _advice(repeat: Repeat, then: str, when: str | None = None) -> Advice:
    return Advice(repeat=repeat, then=then, when=when)


YES, WAIT, LATER, NO = Repeat.YES, Repeat.WAIT, Repeat.LATER, Repeat.NO
ADVICE: dict[str, dict[str, Advice]] = {
    "General": {
        "VALIDATION_ERROR": _advice(NO, "Show each message at its field. An unknown field is a mistake in the client."),
        "UNAUTHENTICATED": _advice(
            LATER, "Refresh the tokens once and repeat the request. If the refresh fails, sign in again."
        ),
        "FORBIDDEN": _advice(NO, "Don't offer this to the user."),
        "NOT_FOUND": _advice(NO, "Remove the object from the screen, or go back to the list."),
        "RATE_LIMITED": _advice(WAIT, "Wait, and send fewer requests. Don't show an error for a background poll."),
        "UNAVAILABLE": _advice(
            YES, "Repeat the request after the wait; show that the service is busy after some tries."
        ),
        "INTERNAL_ERROR": _advice(
            YES,
            "Repeat it with its key after a pause. Show `details.request_id` to the user, for support.",
            "Something unforeseen failed. The log has the cause, by `details.request_id`.",
        ),
        "IDEMPOTENCY_MISMATCH": _advice(NO, "Make a new key for each new request. This is a mistake in the client."),
        "IDEMPOTENCY_IN_FLIGHT": _advice(YES, "Wait a moment and repeat it with the same key."),
        "STALE_WRITE": _advice(NO, "Show `details.current`, and let the user apply their change again."),
    },
    "Requests that come from the wrong place": {
        "EXPOSED_DEVELOPMENT": _advice(
            NO, "This is a mistake in the deployment. To use a development service from a phone, allow it there."
        ),
        "HTTPS_REQUIRED": _advice(
            NO, "Use https:// or wss://. The token has crossed the network unencrypted: refresh it over TLS."
        ),
    },
    "Requests that can't be read": {
        "MALFORMED": _advice(
            NO,
            "This is a mistake in the client or a proxy.",
            "The request is not valid HTTP, its body can't be read, or a socket's address was called without an upgrade.",
        ),
        "METHOD_NOT_ALLOWED": _advice(
            NO, "This is a mistake in the client.", "The address exists, but does not take this method."
        ),
        "UNSUPPORTED_MEDIA_TYPE": _advice(
            NO, "Send `Content-Type: application/json`.", "The body's media type is not JSON."
        ),
        "BODY_TOO_LARGE": _advice(NO, "Send a smaller body.", "The body is larger than 64 KiB."),
        "HEADERS_TOO_LARGE": _advice(
            NO, "Send fewer or shorter headers.", "The headers are larger than 64 KiB, or have more than 100 fields."
        ),
        "REQUEST_TIMEOUT": _advice(
            YES,
            "Repeat it on a new connection.",
            "The headers took longer than 10 s to arrive, or the body longer than 15 s.",
        ),
        "ERROR": _advice(NO, "Go by the status.", "The request was refused before a route could answer it."),
    },
    "Sign-in of customers and mitras": {
        "OTP_RATE_LIMIT_PHONE": _advice(WAIT, "Show the wait, and offer to go on without a phone number."),
        "OTP_RATE_LIMIT_IP": _advice(WAIT, "Show the wait, and offer to go on without a phone number."),
        "OTP_COOLDOWN": _advice(WAIT, "Extend the countdown on the button that asks for another code."),
        "OTP_BUDGET_EXCEEDED": _advice(WAIT, "Show the wait, and offer to go on without a phone number."),
        "OTP_DELIVERY_FAILED": _advice(YES, "Let the user check the number and try again."),
        "OTP_INVALID": _advice(NO, "Let the user type the code again, and show how many tries are left."),
        "OTP_EXPIRED": _advice(NO, "Ask for a new code."),
        "OTP_ATTEMPTS_EXCEEDED": _advice(NO, "Ask for a new code."),
        "IDENTITY_TOKEN_INVALID": _advice(NO, "Get a new identity token from the provider."),
        "PROVIDER_DISABLED": _advice(NO, "Hide the button: read `GET /api/shared/auth-providers` at the start."),
        "REFRESH_INVALID": _advice(NO, "Forget the tokens and sign in again."),
    },
    "Payment": {
        "DISPLAY_NAME_REQUIRED": _advice(LATER, "Ask for the name, save it, and repeat the request."),
        "TIER_NOT_FOUND": _advice(NO, "Read the prices again: an operator has changed them."),
        "PRICE_CHANGED": _advice(
            NO,
            "Show the price that `details.amount` names. If the customer agrees, send the request with it as "
            "`expected_amount` and a new key.",
        ),
        "DISCOUNT_NOT_ELIGIBLE": _advice(NO, "Read the prices again, and offer the ordinary ones."),
        "SESSION_IN_PROGRESS": _advice(LATER, "Open the session or the payment request that `details` names."),
        "FREE_REQUEST_OPEN": _advice(LATER, "Show that support is looking at the last request, and offer paid ones."),
        "GATEWAY_UNAVAILABLE": _advice(YES, "Let the user try again: a new request is made."),
        "PAYMENT_NOT_PENDING": _advice(NO, "Read the payment request again, and show its state."),
        "PAYMENT_NOT_CONFIRMED": _advice(LATER, "Wait until the payment is confirmed."),
        "NOT_PREVIOUS_MITRA": _advice(NO, "Offer only mitras of the customer's history."),
    },
    "Pairing": {
        "MITRA_OFFLINE": _advice(
            LATER, "Customer: offer another mitra or a blast. Mitra: go online, then repeat the request."
        ),
        "MITRA_AT_CAPACITY": _advice(LATER, "Customer: offer another mitra or a blast. Mitra: end a session first."),
        "NO_MITRA_AVAILABLE": _advice(
            LATER,
            "Ask the customer whether they want to wait. If so, send the request with `accept_wait: true` and a new key.",
        ),
        "REQUEST_TAKEN": _advice(NO, "Remove the chat request from the list."),
        "REQUEST_CLOSED": _advice(NO, "Remove the chat request from the list."),
        "SESSION_NOT_SEARCHING": _advice(NO, "Open the session that `details.session_id` names."),
        "NOT_TARGETED": _advice(NO, "Read the payment request again, and show its state."),
        "FAILURE_ACTIONED": _advice(NO, "Show what was done (`failure.operator_action`), and offer a new request."),
    },
    "Sessions and extensions": {
        "SESSION_NOT_ACTIVE": _advice(NO, "Read the session again. Keep the unsent message on the screen."),
        "EARLY_END_DISABLED": _advice(LATER, "Hide the button until the paid time is over: read the app's switches."),
        "SESSION_NOT_CLOSABLE": _advice(LATER, "Read the session again, and show the goodbye when it has expired."),
        "SESSION_NOT_COMPLETED": _advice(LATER, "Show the receipt when the session is completed."),
        "CLOSURE_EXISTS": _advice(NO, "Show the goodbye that was said."),
        "SENSITIVITY_LATCHED": _advice(NO, "Show the mark without a way to take it back."),
        "SESSION_NOT_EXTENDABLE": _advice(NO, "Offer a new session instead."),
        "EXTENSION_PENDING": _advice(LATER, "Open the payment request that `details` names, or wait for the mitra."),
        "EXTENSION_LIMIT": _advice(NO, "Offer a new session after this one."),
        "EXTENSION_RESOLVED": _advice(NO, "Read the session again: the answer has been given."),
    },
    "Sockets": {
        "INVALID_FRAME": _advice(
            NO, "This is a mistake in the client.", "A frame is not a JSON object with the declared fields."
        ),
        "UNKNOWN_TYPE": _advice(NO, "This is a mistake in the client.", "This path has no such frame."),
        "TOO_FAST": _advice(
            WAIT, "Stop sending messages of that session, wait, then send them again in the same order."
        ),
    },
    "Own data": {
        "RECENT_SIGN_IN_REQUIRED": _advice(LATER, "Let the person sign in again, then repeat the request."),
    },
    "Control center": {
        "LOGIN_INVALID": _advice(NO, "Let the operator type both again."),
        "LOGIN_TOKEN_INVALID": _advice(NO, "Begin the sign-in again."),
        "ACCOUNT_LOCKED": _advice(WAIT, "Show the countdown. The right password is refused until then, too."),
        "PASSWORD_CHANGE_REQUIRED": _advice(LATER, "Ask for a new password, then repeat the request."),
        "TOTP_INVALID": _advice(NO, "Let the operator type the next code."),
        "TOTP_REQUIRED": _advice(
            LATER, "Ask for a code, send it to `POST /internal/auth/step-up`, and repeat the request."
        ),
        "TOTP_ENROLMENT_REQUIRED": _advice(LATER, "Let the operator set up their second factor; nothing else works."),
        "TOTP_NOT_BEGUN": _advice(LATER, "Begin again with `POST /internal/auth/totp/begin`."),
        "TOTP_NOT_ENROLLED": _advice(LATER, "Let the operator set up their second factor first."),
        "TOTP_REQUIRED_BY_ROLE": _advice(NO, "Offer to replace the second factor instead."),
        "EMAIL_TAKEN": _advice(NO, "Let the operator choose another address."),
        "ROLE_NAME_TAKEN": _advice(NO, "Let the operator choose another name."),
        "PHONE_TAKEN": _advice(NO, "Look up the mitra who has this number."),
        "LAST_ADMINISTRATOR": _advice(LATER, "Make another operator administrator first."),
        "TIER_EXISTS": _advice(NO, "Change or reactivate the tier that `details.id` names."),
        "ALREADY_ACTIONED": _advice(NO, "Read the failure again, and show what was done."),
        "FAILURE_SUPERSEDED": _advice(NO, "Read the list again: the customer has tried again."),
        "REFUND_PENDING": _advice(LATER, "Read the failure again until `refund.status` is `succeeded` or `failed`."),
        "REFUNDS_DISABLED": _advice(
            NO, "Hide the button: `may_refund` is false. Record a refund that you made yourself."
        ),
        "NOT_REFUNDABLE": _advice(
            NO, "Show why (`details.reason`). Move the money in another way, and record it with a note."
        ),
        "NOT_REPLAYABLE": _advice(NO, "Look at the stored call; it can't be replayed."),
    },
}
