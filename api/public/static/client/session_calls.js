/** @import { CallOptions, Extension, Message, Session } from "./types.d.ts" */
/** @typedef {(route: string, options: CallOptions) => Promise<any>} Call */

const PAGE = 50;
const SESSION = "/api/shared/chat/sessions/{session_id}";

/** Requests about sessions. All raise SesiError. */
export class SessionCalls {
  #call;

  /** @param {Call} call */
  constructor(call) {
    this.#call = call;
  }

  /**
   * @param {string} id
   * @returns {Promise<Session>}
   */
  read(id) {
    return this.#call(`GET ${SESSION}`, { path: { session_id: id } });
  }

  /**
   * Return the messages before a `seq`, or the last ones.
   * @param {string} id
   * @param {number} [before]
   * @returns {Promise<Message[]>}
   */
  async messages(id, before) {
    const page = await this.#call(`GET ${SESSION}/messages`, {
      path: { session_id: id },
      query: { before, limit: PAGE },
    });
    return page.items;
  }

  /**
   * @param {string} route
   * @param {string} id
   * @param {object} [body]
   * @returns {Promise<Session>}
   */
  act(route, id, body) {
    return this.#call(route, { path: { session_id: id }, body });
  }

  /**
   * @param {string} id
   * @param {string} extensionId
   * @param {boolean} accept
   * @returns {Promise<Extension>}
   */
  answer(id, extensionId, accept) {
    const path = { session_id: id, extension_id: extensionId };
    return this.#call(`POST ${SESSION}/extensions/{extension_id}/answer`, { path, body: { accept } });
  }
}
