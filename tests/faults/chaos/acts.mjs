/** @import { Client } from "../../../api/web/client/index.js" */

const ID = "([0-9a-f-]{36})";
const SESSIONS = "/api/shared/chat/sessions";

/** @type {[string, (client: Client, ids: string[], body: any) => Promise<unknown>][]} */
const ACTS = [
  ["POST /api/client/payment/requests", (client, _ids, body) => client.pay(body)],
  [`GET /api/client/payment/requests/${ID}`, (client, [id = ""]) => client.readPayment(id)],
  [`POST /api/client/payment/requests/${ID}/abandon`, (client, [id = ""]) => client.abandonPayment(id)],
  ["POST /api/client/chat/cancel", (client, _ids, body) => client.cancelSearch(body.payment_request_id)],
  ["POST /api/mitra/status/online", (client) => client.goOnline()],
  ["POST /api/mitra/status/offline", (client) => client.goOffline()],
  [`POST /api/mitra/chat-requests/${ID}/accept`, (client, [id = ""]) => client.accept(id)],
  [`POST /api/mitra/chat-requests/${ID}/reject`, (client, [id = ""]) => client.reject(id)],
  [`POST ${SESSIONS}/${ID}/closure`, (client, [id = ""], body) => client.sayGoodbye(id, body.message)],
  [
    `POST ${SESSIONS}/${ID}/extensions/${ID}/answer`,
    (client, [session = "", id = ""], body) => client.answerExtension(session, id, body.accept),
  ],
];

/**
 * Call a route by the method of the library that is made for it, or by `call`. Raises SesiError.
 * @param {Client} client
 * @param {string} route method and path
 * @param {object} [query]
 * @param {object} [body]
 * @returns {Promise<unknown>}
 */
export function act(client, route, query, body) {
  for (const [pattern, act] of ACTS) {
    const found = new RegExp(`^${pattern}$`).exec(route);
    if (found) return act(client, found.slice(1), body);
  }
  const options = { ...(query && { query }), ...(body && { body }) };
  return /** @type {any} */ (client).call(route, options);
}
