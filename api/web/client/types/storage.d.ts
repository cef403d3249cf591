/** @import { StoragePort } from "./types.d.ts" */
import type { StoragePort } from "./types.d.ts";
/**
 * Storage that ends with the page or the process.
 * @returns {StoragePort}
 */
export declare function memoryStorage(): StoragePort;
/**
 * Storage in IndexedDB under keys that begin with `prefix`. A database that fails is opened again once for each access.
 * `clear` removes all of these keys; no client may use them then.
 * @param {string} prefix
 * @returns {StoragePort & { clear(): Promise<void> }}
 */
export declare function browserStorage(prefix: string): StoragePort & {
    clear(): Promise<void>;
};
/** JSON values in a storage. After a failure they are kept in memory only, and `onFailure` is called once. */
export declare class Values {
    #private;
    /**
     * @param {StoragePort} port
     * @param {() => void} onFailure
     */
    constructor(port: StoragePort, onFailure: () => void);
    /**
     * @param {string} key
     * @returns {Promise<any>} null if there is none
     */
    get(key: string): Promise<any>;
    /**
     * @param {string} key
     * @param {unknown} value
     */
    set(key: string, value: unknown): Promise<void>;
    /** @param {string} key */
    remove(key: string): Promise<void>;
}
