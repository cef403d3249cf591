/** A code that proves a phone number: the number, then six digits, which are sent at the sixth. */

import { freshId, h } from "/try/shared/dom.js";
import { wait } from "/try/shared/format.js";
import { t } from "/try/shared/words.js";
import { actionButton, showProblem } from "./buttons.js";
import { countdown } from "./countdown.js";
import { BLOCKING } from "./errors.js";

const CODE_LENGTH = 6;

/**
 * Make the two steps. `use(otpRequestId, code)` uses the code, by default to sign in, and `signedIn(user)` is called at
 * the end; `blocked(error)`, if given, is called when no code can be sent or tried for some time, with an error of
 * BLOCKING. `phone` fills the number in, and can't be changed if it is `fixed`.
 */
export function codeSignIn(scope, { phone = "", fixed = false, signedIn, blocked = null, use = null }) {
  const client = scope.client;
  const useCode = use ?? ((otpRequestId, code) => client.verifyCode(otpRequestId, code));
  const place = h("div", { class: "code-sign-in" });
  let resendAt = null; // a time of the service: no code can be asked for before it

  const fail = (error) => {
    if (error.code in { OTP_COOLDOWN: 0, OTP_RATE_LIMIT_PHONE: 0, OTP_RATE_LIMIT_IP: 0 } && error.retryAfterSeconds) {
      resendAt = later(client, error.retryAfterSeconds);
    }
    if (blocked && BLOCKING.has(error.code)) blocked(error);
    throw error;
  };

  async function request(number) {
    const [code, config] = await Promise.all([
      client.requestCode(number).catch(fail),
      client.call("GET /api/shared/config/otp").catch(() => null),
    ]);
    resendAt = later(client, config?.resend_cooldown_seconds ?? code.resend_after_seconds);
    return code;
  }

  function showPhone() {
    const id = freshId();
    const input = h("input", {
      id,
      type: "tel",
      name: "phone",
      autocomplete: "tel",
      inputmode: "tel",
      placeholder: "0812 3456 7890",
      maxlength: 40,
      required: true,
      readonly: fixed,
      value: phone,
    });
    const next = actionButton(
      t("Send the code"),
      async () => {
        phone = input.value.trim();
        if (phone === "") return input.focus();
        showCode(await request(phone));
      },
      { kind: "primary", type: "submit" },
    );
    place.replaceChildren(
      h(
        "form",
        { class: "stack", novalidate: true, onsubmit: (event) => event.preventDefault() },
        h("div", { class: "field" }, h("label", { for: id }, t("Phone number")), input),
        next,
      ),
    );
    input.focus({ preventScroll: true });
  }

  function showCode(code) {
    const id = freshId();
    let sending = false;
    const input = h("input", {
      id,
      class: "code-field",
      name: "code",
      autocomplete: "one-time-code",
      inputmode: "numeric",
      "aria-describedby": `${id}-hint`,
      async oninput() {
        const digits = [...input.value.replace(/\P{Nd}/gu, "")].slice(0, CODE_LENGTH).join("");
        if (input.value !== digits) input.value = digits;
        if ([...digits].length < CODE_LENGTH || sending) return;
        await verify(digits);
      },
    });
    async function verify(digits) {
      sending = input.readOnly = true;
      showProblem(input, null);
      try {
        signedIn(await useCode(code.otp_request_id, digits).catch(fail));
      } catch (error) {
        input.value = "";
        showProblem(input, error);
      } finally {
        sending = input.readOnly = false;
        if (input.isConnected) input.focus({ preventScroll: true });
      }
    }
    const resend = actionButton(
      t("Send a new code"),
      async () => {
        code = await request(phone);
        showProblem(input, null);
        input.focus({ preventScroll: true });
      },
      { kind: "quiet" },
    );
    const left = countdown(scope, () => resendAt, { label: t("Time until a new code can be sent"), format: wait });
    const waiting = h("p", { class: "quiet resend-wait" }, t("A new code can be sent in"), " ", left);
    scope.every(250, () => {
      const open = resendAt === null || client.secondsUntil(resendAt) <= 0;
      resend.hidden = !open;
      waiting.hidden = open;
    });
    place.replaceChildren(
      h("p", { id: `${id}-hint` }, t("We have sent a code to {phone}.", { phone })),
      h("div", { class: "field" }, h("label", { for: id }, t("6-digit code")), input),
      h("div", { class: "resend" }, waiting, resend),
      fixed ? "" : actionButton(t("Use another number"), showPhone, { kind: "plain" }),
    );
    input.focus({ preventScroll: true });
  }

  showPhone();
  return place;
}

const later = (client, seconds) => new Date(client.now() + seconds * 1000).toISOString();
