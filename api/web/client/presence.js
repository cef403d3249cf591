import { hasCode, ignoreRefusal } from "./errors.js";
import { isTransient, longestPause } from "./rest.js";

/** @import { MitraStatus } from "./types.d.ts" */

const HEARTBEAT = "heartbeat";
const STATUS = "/api/mitra/status";

/** Whether a mitra is online, and the heartbeats that keep them so. */
export class Presence {
  #device;
  /** @type {(() => void) | null} */
  #stopBeating = null;
  #everyMs = 0;

  /** @param {import("./device.js").Device} device */
  constructor(device) {
    this.#device = device;
  }

  /** Read the status, because it may have changed while no socket was open. */
  async refresh() {
    await this.#learn(`GET ${STATUS}`).catch(ignoreRefusal);
  }

  /**
   * Go online or offline, or say that the mitra still is online. Raises SesiError.
   * @param {"online" | "offline" | "heartbeat"} action
   */
  async change(action) {
    await this.#learn(`POST ${STATUS}/${action}`, action !== HEARTBEAT);
  }

  /** Send no more heartbeats. */
  stop() {
    this.#stopBeating?.();
    this.#stopBeating = null;
  }

  /**
   * Handle a frame of `/ws/pairing`.
   * @param {any} frame
   */
  receive(frame) {
    const { status } = this.#device.state;
    if (frame.type === "mitra_status_changed" && status) {
      this.#keep({ ...status, is_online: frame.is_online }, frame.reason);
    } else if (frame.type === "error" && frame.ref === HEARTBEAT && frame.code === "MITRA_OFFLINE") {
      void this.refresh();
    }
  }

  /**
   * Answer a presence check; return whether the push was one.
   * @param {Record<string, unknown>} push its data
   */
  async answer(push) {
    if (push.action !== "presence_check") return false;
    if (!this.#device.tokens.current) await this.#device.tokens.load(); // the system may have started the app for it
    // Over REST: a socket of a suspended app may look open although its network is gone.
    if (this.#device.tokens.current) await this.#beatOverRest((Number(push.lifetime_seconds) || 0) * 1000);
    return true;
  }

  /** Send a heartbeat, over REST while no socket is open. */
  async #beat() {
    if (!this.#device.pairing.send({ type: HEARTBEAT, ref: HEARTBEAT })) await this.#beatOverRest();
  }

  /**
   * @param {number} [withinMs] how long a heartbeat that finds no service is repeated
   */
  async #beatOverRest(withinMs = 0) {
    const { after, mono, random } = this.#device.ports.time;
    const end = mono() + withinMs;
    for (let n = 0; ; n++) {
      try {
        return await this.change(HEARTBEAT);
      } catch (/** @type {any} */ error) {
        ignoreRefusal(error);
        if (hasCode(error, "MITRA_OFFLINE")) return this.refresh();
        const ms = 1000 * (error.retryAfterSeconds ?? random() * longestPause(n));
        if (!isTransient(error) || mono() + ms >= end) return;
        await new Promise((resolve) => after(ms, () => resolve(null)));
      }
    }
  }

  /**
   * @param {string} route
   * @param {boolean} [isChange] whether the answer is the newest state in any case
   */
  async #learn(route, isChange) {
    const before = this.#device.state.status;
    const status = await this.#device.account.call(route, { fields: ["is_online"] }, route.endsWith(HEARTBEAT));
    if (!isChange && this.#device.state.status !== before) return; // this answer may be older
    this.#keep(status, status.is_online ? null : undefined);
  }

  /**
   * @param {MitraStatus} status
   * @param {string | null} [reason] undefined: as before
   */
  #keep(status, reason) {
    this.#device.update(reason === undefined ? { status } : { status, statusReason: reason });
    const everyMs = (status.heartbeat_cadence_seconds * 1000) / this.#device.clock.scale;
    if (!status.is_online || everyMs !== this.#everyMs) this.stop();
    if (!status.is_online || this.#stopBeating || !this.#device.isStarted) return;
    this.#everyMs = everyMs;
    this.#stopBeating = this.#device.ports.time.every(everyMs, () => void this.#beat());
  }
}
