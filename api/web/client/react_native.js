/** The entry for React Native: its ports and storage, made of the modules that an app hands over, and a hook. */

// @ts-expect-error the app brings it
import { useSyncExternalStore } from "react";
// @ts-expect-error the app brings it
import { AppState } from "react-native";
import { Client } from "./client.js";
import { commonPorts, randomId } from "./ports.js";

/** @import { NativeModules, NativeOptions, Ports, State, StoragePort } from "./types.d.ts" */

export { SesiError } from "./errors.js";
export { verifyReceipt } from "./receipts.js";
export { memoryStorage } from "./storage.js";
export { Client };

/**
 * @param {Required<NativeModules["Crypto"]>} Crypto
 * @param {Uint8Array<ArrayBuffer>} bytes
 */
const sha256 = async (Crypto, bytes) => new Uint8Array(await Crypto.digest("SHA-256", bytes));

/**
 * Return the ports of React Native.
 * @param {NativeModules} modules
 * @returns {Ports}
 */
const portsOf = ({ Crypto, NetInfo }) => ({
  ...commonPorts,
  id: () => randomId((bytes) => Crypto.getRandomValues(bytes)),
  sha256: Crypto.digest ? (bytes) => sha256(/** @type {Required<typeof Crypto>} */ (Crypto), bytes) : null,
  page: {
    hidden: () => AppState.currentState === "background", // iOS: "inactive" is a call or a notification above the app
    listen: (listener) => {
      const app = AppState.addEventListener("change", (/** @type {string} */ state) => {
        if (state === "active") listener("visible");
      });
      /** @type {string | null} the kind of network, "" without one, null while that is unknown */
      let before = null;
      const stop = NetInfo.addEventListener(({ isConnected, type }) => {
        const now = isConnected === false ? "" : type;
        if (now && before !== null && now !== before) listener("online");
        before = now;
      });
      return () => {
        app.remove();
        stop();
      };
    },
  },
});

/**
 * Return a storage that keeps the tokens in the secure store, and all else in AsyncStorage.
 * @param {string} role
 * @param {NativeModules} modules
 * @returns {StoragePort}
 */
function storageOf(role, { SecureStore, AsyncStorage }) {
  const secret = `sesi.${role}.tokens`; // the names of a secure store have no colons
  const prefix = `sesi:${role}:`;
  // iOS would refuse to read them on a locked phone, where a presence check is answered.
  const options = { keychainAccessible: SecureStore.AFTER_FIRST_UNLOCK };
  return {
    get: (key) => (key === "tokens" ? SecureStore.getItemAsync(secret) : AsyncStorage.getItem(prefix + key)),
    set: (key, value) =>
      key === "tokens" ? SecureStore.setItemAsync(secret, value, options) : AsyncStorage.setItem(prefix + key, value),
    remove: (key) => (key === "tokens" ? SecureStore.deleteItemAsync(secret) : AsyncStorage.removeItem(prefix + key)),
  };
}

/**
 * Make a client for React Native. `start` connects it.
 * @param {NativeOptions} options
 */
export const createClient = ({ native, ...options }) =>
  new Client({
    ...options,
    storage: options.storage ?? storageOf(options.role, native),
    ports: { ...portsOf(native), ...options.ports },
  });

/** @param {State} state */
const whole = (state) => state;

/**
 * Return what `select` takes of the state, and render again when that changes. Without `select` it is the whole state.
 * @template [T=State]
 * @param {Client} client
 * @param {(state: State) => T} [select] returns a part of the state, never a new object
 * @returns {T}
 */
export const useSesi = (client, select = /** @type {any} */ (whole)) =>
  useSyncExternalStore(client.subscribe, () => select(client.state));
