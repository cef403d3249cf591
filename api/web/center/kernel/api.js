/** Requests to the internal listener, with the access token; an expired token is renewed once. */

import { preferences } from "../shared/preferences.js";
import { service } from "../shared/service.js";
import { session } from "./session.js";

/** An error that the service has answered. `code` is OFFLINE if the service could not be reached. */
export class ApiError extends Error {
  constructor(status, { code, message, details, retry_after_seconds }) {
    super(message);
    this.status = status;
    this.code = code;
    this.details = details ?? {};
    this.retryAfter = retry_after_seconds ?? null;
  }

  /** The messages about fields of the body, if there are any. */
  field(name) {
    return this.details.fields?.find((one) => one.field === name)?.message ?? null;
  }
}

const PATIENCE_MS = 30_000; // longer than the service takes for any request except the ledger audit

const FILE_PATIENCE_MS = 270_000; // longer than the service takes to make a file
const JSON_TYPE = "application/json";

let askForCode = null; // asks for a fresh code of the second factor
let ahead = 0; // milliseconds by which the service's clock is ahead of this machine's

/**
 * Set the function that asks the operator for a fresh code when the service needs one. It resolves with whether they
 * gave one.
 */
export const onCodeWanted = (ask) => {
  askForCode = ask;
};

/** Return the service's time, in milliseconds. */
export const serviceNow = () => Date.now() + ahead;

Object.assign(service, { Failure: ApiError, now: serviceNow });

async function send(method, path, { query, body, key, signal, token, patience = PATIENCE_MS, accept = JSON_TYPE }) {
  const filled = Object.entries(query ?? {}).filter(
    ([, value]) => value !== null && value !== undefined && value !== "",
  );
  const address = filled.length ? `${path}?${new URLSearchParams(filled)}` : path;
  const headers = { Accept: accept, "Accept-Language": preferences.language }; // of error messages
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key) headers["Idempotency-Key"] = key;
  const ends = [AbortSignal.timeout(patience), signal].filter(Boolean);
  const options = { method, headers, cache: "no-store", credentials: "omit", redirect: "error" };
  let response;
  let answer;
  try {
    response = await fetch(address, { ...options, signal: AbortSignal.any(ends), body: body && JSON.stringify(body) });
    if (accept !== JSON_TYPE && response.ok) return await response.blob();
    answer = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { code: "OFFLINE", message: "The service can't be reached." });
  }
  const told = response.headers.get("X-Server-Time");
  if (told) ahead = new Date(told).getTime() - Date.now();
  let content;
  try {
    content = answer ? JSON.parse(answer) : null;
  } catch {
    throw new ApiError(response.status, { code: "UNREADABLE", message: "The response can't be read." });
  }
  if (!response.ok)
    throw new ApiError(
      response.status,
      content?.error ?? { code: "UNREADABLE", message: "The response can't be read." },
    );
  return content;
}

/**
 * Renew the tokens, one tab at a time; a tab that has waited uses the other's new tokens. Throws ApiError if that
 * fails.
 */
async function renew(stale) {
  const work = async () => {
    const tokens = session.tokens;
    if (tokens && tokens.access !== stale) return;
    session.keep(await send("POST", "/internal/auth/refresh", { body: { refresh_token: tokens?.refresh ?? "" } }));
  };
  await (navigator.locks ? navigator.locks.request("sesi.renewal", work) : work());
}

/** Send a request. If the service needs a fresh code and the operator enters one, send it again. */
async function call(method, path, options = {}) {
  try {
    return await renewing(method, path, options);
  } catch (error) {
    if (error.code !== "TOTP_REQUIRED" || !(await askForCode?.())) throw error;
  }
  return renewing(method, path, options);
}

/** Send a request. If the token has expired, renew it and send the request again. */
async function renewing(method, path, options) {
  const token = session.tokens?.access;
  try {
    return await send(method, path, { ...options, token });
  } catch (error) {
    if (error.code !== "UNAUTHENTICATED" || !token) throw error; // a wrong password is a 401 too
  }
  try {
    await renew(token);
  } catch (error) {
    if (error.status === 401 || error.status === 422) session.end();
    throw error;
  }
  try {
    return await send(method, path, { ...options, token: session.tokens?.access });
  } catch (error) {
    if (error.code === "UNAUTHENTICATED") session.end();
    throw error;
  }
}

export const api = {
  get: (path, query, signal, patience) => call("GET", path, { query, signal, patience }),
  post: (path, body, patience) => call("POST", path, { body, patience }),
  /** Send what must not happen twice: a repeat with the same key gets the first answer. */
  once: (path, body, key) => call("POST", path, { body, key }),
  /** Read a list as a CSV file, with all its rows. */
  file: (path, query) => call("GET", path, { query, accept: "text/csv", patience: FILE_PATIENCE_MS }),
  put: (path, body) => call("PUT", path, { body }),
  patch: (path, body) => call("PATCH", path, { body }),
  delete: (path, query, body) => call("DELETE", path, { query, body }),
  /** Sign in, without a token and its renewal. Returns a login token if a code must follow, else null. */
  async signIn(email, password) {
    const answer = await send("POST", "/internal/auth/login", { body: { email, password } });
    if (answer.totp_required) return answer.login_token;
    session.keep(answer);
    return null;
  },
  /** Complete a sign-in: `code` is `{ code }` or `{ recovery_code }`. */
  async verify(login_token, code) {
    session.keep(await send("POST", "/internal/auth/totp/verify", { body: { login_token, ...code } }));
  },
  async signOut() {
    try {
      await call("POST", "/internal/auth/logout");
    } finally {
      session.end();
    }
  },
};
