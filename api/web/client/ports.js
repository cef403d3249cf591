/** @import { Ports, HttpRequest, SocketEvents } from "./types.d.ts" */

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
 * @template T
 * @param {string} name
 * @param {number} timeoutMs
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
async function lock(name, timeoutMs, work) {
  if (!globalThis.navigator?.locks) return work();
  let begun = false;
  const begin = () => {
    begun = true;
    return work();
  };
  try {
    return await navigator.locks.request(name, { signal: AbortSignal.timeout(timeoutMs) }, begin);
  } catch (error) {
    if (begun) throw error;
    return work(); // another tab that keeps the lock must not stop this one
  }
}

/** @type {any} */
let workerUrl = null;

/** Return the worker's address. A page that requires trusted types must allow the policy `sesi-worker`. */
function timerWorkerUrl() {
  const url = new URL("./timer_worker.js", import.meta.url).href;
  const { trustedTypes } = /** @type {any} */ (globalThis);
  workerUrl ??= trustedTypes?.createPolicy("sesi-worker", { createScriptURL: () => url }).createScriptURL("") ?? url;
  return workerUrl;
}

/**
 * @param {number} ms
 * @param {() => void} callback
 */
function every(ms, callback) {
  const start = () => {
    const timer = setInterval(callback, ms);
    return () => clearInterval(timer);
  };
  if (!globalThis.document || !globalThis.Worker) return start();
  const worker = new Worker(timerWorkerUrl());
  let stop = () => worker.terminate();
  worker.onmessage = callback;
  worker.onerror = () => {
    stop = start(); // the page's policy allows no worker
  };
  worker.postMessage(ms);
  return () => stop();
}

/** @param {(change: "visible" | "online") => void} listener */
function listen(listener) {
  if (!globalThis.document) return () => {};
  const abort = new AbortController();
  const { signal } = abort;
  const visible = () => document.hidden || listener("visible");
  document.addEventListener("visibilitychange", visible, { signal });
  addEventListener("pageshow", visible, { signal });
  addEventListener("online", () => listener("online"), { signal });
  return () => abort.abort();
}

/** Return a random UUID (version 4), also on pages without TLS, where `crypto.randomUUID` is missing. */
const randomId = () =>
  "xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx".replaceAll("x", () =>
    ((crypto.getRandomValues(new Uint8Array(1))[0] ?? 0) % 16).toString(16),
  );

/** @param {Uint8Array<ArrayBuffer>} bytes */
const sha256 = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

/** @type {Ports} */
export const defaultPorts = {
  open,
  fetch: request,
  time: {
    wall: () => Date.now(),
    mono: () => performance.now(),
    random: () => Math.random(),
    after: (ms, callback) => setTimeout(callback, ms),
    cancel: (timer) => clearTimeout(/** @type {any} */ (timer)),
    every,
  },
  id: randomId,
  lock,
  sha256: globalThis.crypto?.subtle ? sha256 : null,
  page: { hidden: () => globalThis.document?.hidden ?? false, listen },
};
