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
