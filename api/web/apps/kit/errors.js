/** The texts of errors, by `code`. A code without a text here has the service's message, in the reader's language. */

import { wait } from "/try/shared/format.js";
import { t } from "/try/shared/words.js";
import { moment } from "./times.js";

const TEXTS = {
  NETWORK: () => t("There is no connection. Check it and try again."),
  UNAVAILABLE: () => t("The service is busy. Try again in a moment."),
  INTERNAL_ERROR: () => t("Something went wrong on our side. Try again in a moment."),
  RATE_LIMITED: (seconds) => t("That was too fast. Try again in {time}.", { time: wait(seconds ?? 1) }),
  ACCOUNT_BLOCKED: (_, { until }) =>
    until
      ? t("Our team has blocked your account until {time}. You can't start or extend chats.", { time: moment(until) })
      : t("Our team has blocked your account until they lift the block. You can't start or extend chats."),
  OTP_INVALID: (_, { attempts_remaining: left }) =>
    left === undefined ? t("The code is not right.") : t("The code is not right. {n} tries left.", { n: left }),
  OTP_EXPIRED: () => t("The code is too old. Ask for a new one."),
  OTP_COOLDOWN: (seconds) => t("A new code can be sent in {time}.", { time: wait(seconds ?? 1) }),
  OTP_RATE_LIMIT_PHONE: (seconds) =>
    t("Too many codes were sent to this number. Try again in {time}.", { time: wait(seconds ?? 60) }),
  OTP_RATE_LIMIT_IP: (seconds) =>
    t("Too many codes were requested from here. Try again in {time}.", { time: wait(seconds ?? 60) }),
  OTP_BUDGET_EXCEEDED: () => t("No codes can be sent at the moment. Try again later."),
  OTP_ATTEMPTS_EXCEEDED: () => t("Too many wrong codes. Ask for a new one."),
};

/** Errors after which no code can be sent or tried for some time. */
export const BLOCKING = new Set([
  "OTP_RATE_LIMIT_PHONE",
  "OTP_RATE_LIMIT_IP",
  "OTP_COOLDOWN",
  "OTP_ATTEMPTS_EXCEEDED",
  "OTP_BUDGET_EXCEEDED",
]);

/**
 * Return the text of an error in the reader's language.
 *
 * @param {import("/client/index.js").SesiError} error
 */
export function explain(error) {
  const text = TEXTS[error.code];
  if (text) return text(error.retryAfterSeconds, error.details ?? {});
  const { fields } = error.details ?? {};
  return fields?.length ? fields.map((one) => one.message).join(" ") : error.message;
}
