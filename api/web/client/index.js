import { browserPorts, browserStorage } from "./browser.js";
import { Client } from "./client.js";

/** @import { ClientOptions } from "./types.d.ts" */

export { SesiError } from "./errors.js";
export { verifyReceipt } from "./receipts.js";
export { memoryStorage } from "./storage.js";
export { browserStorage, Client };

/**
 * Make a client for a browser or Node. `start` connects it.
 * @param {ClientOptions} options
 */
export const createClient = (options) =>
  new Client({
    ...options,
    storage: options.storage ?? browserStorage(`sesi:${options.role}:`),
    ports: { ...browserPorts, ...options.ports },
  });
