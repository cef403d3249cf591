/** @import { StoragePort } from "./types.d.ts" */

/**
 * Storage that ends with the page or the process.
 * @returns {StoragePort}
 */
export function memoryStorage() {
  /** @type {Map<string, string>} */
  const values = new Map();
  return {
    get: async (key) => values.get(key) ?? null,
    set: async (key, value) => void values.set(key, value),
    remove: async (key) => void values.delete(key),
  };
}

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

/** JSON values in a storage. After a failure they are kept in memory only, and `onFailure` is called once. */
export class Values {
  #port;
  #onFailure;
  #memory = memoryStorage();
  #failed = false;

  /**
   * @param {StoragePort} port
   * @param {() => void} onFailure
   */
  constructor(port, onFailure) {
    this.#port = port;
    this.#onFailure = onFailure;
  }

  /**
   * @param {string} key
   * @returns {Promise<any>} null if there is none
   */
  async get(key) {
    const text = await this.#try((port) => port.get(key));
    if (text !== null && !this.#failed) await this.#memory.set(key, text);
    return text === null ? null : JSON.parse(text);
  }

  /**
   * @param {string} key
   * @param {unknown} value
   */
  async set(key, value) {
    const text = JSON.stringify(value);
    await this.#memory.set(key, text);
    await this.#try((port) => port.set(key, text));
  }

  /** @param {string} key */
  async remove(key) {
    await this.#memory.remove(key);
    await this.#try((port) => port.remove(key));
  }

  /**
   * @template T
   * @param {(port: StoragePort) => Promise<T>} access
   * @returns {Promise<T>}
   */
  async #try(access) {
    if (!this.#failed) {
      try {
        return await access(this.#port);
      } catch {
        this.#failed = true;
        this.#onFailure();
      }
    }
    return access(this.#memory);
  }
}
