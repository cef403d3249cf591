/** @import { HttpRequest, Ports, SocketEvents } from "./types.d.ts" */

const REQUEST_MS = 30_000;

/**
 * @param {string} url
 * @param {SocketEvents} events
 */
function open(url, events) {
  const socket = new WebSocket(url);
  socket.onopen = () => events.opened();
  socket.onmessage = ({ data }) => events.received(String(data));
  socket.onclose = ({ code }) => events.closed(code);
  return { send: (/** @type {string} */ text) => socket.send(text), close: () => socket.close() };
}

/** @param {HttpRequest} request */
async function request({ method, url, headers, body }) {
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), REQUEST_MS);
  try {
    const answer = await fetch(url, { method, headers, body, signal: abort.signal, credentials: "omit" });
    const header = (/** @type {string} */ name) => answer.headers.get(name);
    return { status: answer.status, header, text: await answer.text() };
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Return a random UUID (version 4).
 * @param {(bytes: Uint8Array<ArrayBuffer>) => unknown} fill sets each byte at random
 */
export const randomId = (fill) =>
  "xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx".replaceAll("x", () => {
    const bytes = new Uint8Array(1);
    fill(bytes);
    return ((bytes[0] ?? 0) % 16).toString(16);
  });

/**
 * What browsers, Node and React Native have in common: no other tab, no page, no digests.
 * @type {Omit<Ports, "id">}
 */
export const commonPorts = {
  open,
  fetch: request,
  time: {
    wall: () => Date.now(),
    mono: () => performance.now(),
    random: () => Math.random(),
    after: (ms, callback) => setTimeout(callback, ms),
    cancel: (timer) => clearTimeout(/** @type {any} */ (timer)),
    every: (ms, callback) => {
      const timer = setInterval(callback, ms);
      return () => clearInterval(timer);
    },
  },
  lock: (_name, _timeoutMs, work) => work(),
  sha256: null,
  page: { hidden: () => false, listen: () => () => {} },
};
