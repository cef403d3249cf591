import { SesiError } from "./errors.js";

/** @import { CallOptions } from "./types.d.ts" */

const ATTEMPTS = 6;
const LONGEST_RETRY_AFTER_S = 30; // an app shows a longer wait to its user instead
// `error` frames have codes only.
const REPEATED = /(NETWORK|RATE_LIMITED|TOO_FAST|IN_FLIGHT|NOT_READY|UNAVAILABLE|INTERNAL_ERROR|TIMEOUT)$/;

const LONGEST_PAUSES_S = [1, 2, 4, 8, 10];

/**
 * Return the longest pause in seconds before attempt `n` (0 for the first one).
 * @param {number} n
 */
export const longestPause = (n) => LONGEST_PAUSES_S[n] ?? 30;

/**
 * Return whether the same request can succeed without a change by the user.
 * @param {any} error
 */
export const isTransient = ({ status, code }) => !/^OTP_/.test(code) && (status >= 500 || REPEATED.test(code));

/**
 * Return the fields that have a value.
 * @param {object} fields
 * @returns {Record<string, string>}
 */
const present = (fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) => (value ?? null) !== null));

const unreached = () => new SesiError(0, { code: "NETWORK", message: "The service can't be reached." });

/** Requests to the public listener. */
export class Rest {
  #device;
  #api;
  #headers;

  /**
   * @param {import("./device.js").Device} device
   * @param {string} api base address
   * @param {Record<string, string | undefined>} headers of every request
   */
  constructor(device, api, headers) {
    this.#device = device;
    this.#api = api.replace(/\/$/, "");
    this.#headers = headers;
  }

  /**
   * Send one request and return its answer, null for 204. A program between app and service may answer instead of it:
   * what is no JSON object with the `fields` of the options counts as no answer. Raises SesiError.
   * @param {string} route method and path, such as `GET /api/client/auth/me`
   * @param {CallOptions} [options]
   * @param {string | null} [token] access token
   * @returns {Promise<any>}
   */
  async once(route, { path = {}, query = {}, body, idempotencyKey, fields = [] } = {}, token) {
    const [method = "GET", template = ""] = route.split(" ");
    const filled = template.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String(path[name])));
    const search = Object.entries(present(query)).map((pair) => pair.map(encodeURIComponent).join("="));
    const { locale } = this.#device;
    const headers = present({
      "Accept-Language": locale,
      "X-Locale": locale,
      ...this.#headers,
      "Content-Type": body && "application/json",
      Authorization: token && `Bearer ${token}`,
      "Idempotency-Key": idempotencyKey,
    });
    const began = this.#device.ports.time.mono();
    let answer;
    /** @type {any} */
    let json = null;
    try {
      answer = await this.#device.ports.fetch({
        method,
        url: this.#api + filled + (search.length ? `?${search.join("&")}` : ""),
        headers,
        body: body ? JSON.stringify(body) : null,
      });
      const ended = this.#device.ports.time.mono();
      json = answer.text ? JSON.parse(answer.text) : null;
      this.#device.clock.learn(answer.header("X-Server-Time"), began, ended, json?.time_scale);
    } catch {
      if (!answer || answer.status < 400) throw unreached();
    }
    if (answer.status >= 400) {
      const ours = typeof json?.error?.code === "string";
      const error = ours ? json.error : { code: "ERROR", message: `The service answered ${answer.status}.` };
      throw new SesiError(answer.status, error, answer.header("X-Request-Id"));
    }
    const isObject = json === null || (typeof json === "object" && !Array.isArray(json));
    if (!isObject || fields.some((name) => (json?.[name] ?? null) === null)) throw unreached();
    return json;
  }

  /**
   * Run `attempt` until it succeeds, fails for good, or has failed too often. Raises SesiError.
   * @template T
   * @param {() => Promise<T>} attempt
   * @returns {Promise<T>}
   */
  async repeat(attempt) {
    for (let n = 0; ; n++) {
      try {
        return await attempt();
      } catch (/** @type {any} */ error) {
        if (!isTransient(error) || n + 1 >= ATTEMPTS) throw error;
        const { random, after } = this.#device.ports.time;
        const seconds = error.retryAfterSeconds ?? random() * longestPause(n);
        if (seconds > LONGEST_RETRY_AFTER_S) throw error;
        await new Promise((resolve) => after(seconds * 1000, () => resolve(null)));
      }
    }
  }
}
