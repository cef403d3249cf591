/** The ports and the storage of browsers and Node. */

import { commonPorts, randomId } from "./ports.js";

/** @import { Ports, StoragePort } from "./types.d.ts" */

// Timers of a worker go on at full pace while the page is hidden. A text needs no file that a bundler could lose.
const TICKS = "onmessage = ({ data }) => setInterval(() => postMessage(0), data);";

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
  if (workerUrl) return workerUrl;
  const url = URL.createObjectURL(new Blob([TICKS], { type: "text/javascript" }));
  const { trustedTypes } = /** @type {any} */ (globalThis);
  workerUrl = trustedTypes?.createPolicy("sesi-worker", { createScriptURL: () => url }).createScriptURL("") ?? url;
  return workerUrl;
}

/**
 * @param {number} ms
 * @param {() => void} callback
 */
function every(ms, callback) {
  const inPage = () => commonPorts.time.every(ms, callback);
  if (!globalThis.document || !globalThis.Worker) return inPage();
  try {
    const worker = new Worker(timerWorkerUrl());
    let stop = () => worker.terminate();
    worker.onmessage = callback;
    worker.onerror = () => {
      stop = inPage();
    };
    worker.postMessage(ms);
    return () => stop();
  } catch {
    return inPage(); // as after an error: the page's policy allows no worker
  }
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

/** @param {Uint8Array<ArrayBuffer>} bytes */
const sha256 = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

/** @type {Ports} */
export const browserPorts = {
  ...commonPorts,
  time: { ...commonPorts.time, every },
  id: () => randomId((bytes) => crypto.getRandomValues(bytes)), // `crypto.randomUUID` needs TLS
  lock,
  sha256: globalThis.crypto?.subtle ? sha256 : null,
  page: { hidden: () => globalThis.document?.hidden ?? false, listen },
};

/**
 * Storage in IndexedDB under keys that begin with `prefix`. A database that fails is opened again once for each access.
 * `clear` removes all of these keys; no client may use them then.
 * @param {string} prefix
 * @returns {StoragePort & { clear(): Promise<void> }}
 */
export function browserStorage(prefix) {
  /** @type {Promise<IDBDatabase> | null} */
  let database = null;

  /** @returns {Promise<IDBDatabase>} */
  const open = () =>
    new Promise((resolve, reject) => {
      const opening = indexedDB.open("sesi", 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore("values");
      opening.onsuccess = () => resolve(opening.result);
      opening.onerror = () => reject(opening.error);
    });

  /**
   * @param {IDBTransactionMode} mode
   * @param {(values: IDBObjectStore) => IDBRequest} access
   */
  const once = async (mode, access) => {
    database ??= open();
    const transaction = (await database).transaction("values", mode);
    const request = access(transaction.objectStore("values"));
    return new Promise((resolve, reject) => {
      transaction.oncomplete = () => resolve(request.result ?? null);
      transaction.onabort = () => reject(transaction.error);
    });
  };

  /**
   * @param {IDBTransactionMode} mode
   * @param {(values: IDBObjectStore) => IDBRequest} access
   * @returns {Promise<any>}
   */
  const run = (mode, access) =>
    once(mode, access).catch(() => {
      database = null; // browsers close databases of pages that were in the background
      return once(mode, access);
    });

  return {
    get: (key) => run("readonly", (values) => values.get(prefix + key)),
    set: (key, value) => run("readwrite", (values) => values.put(value, prefix + key)),
    remove: (key) => run("readwrite", (values) => values.delete(prefix + key)),
    clear: () => run("readwrite", (values) => values.delete(IDBKeyRange.bound(prefix, `${prefix}\uffff`))),
  };
}
