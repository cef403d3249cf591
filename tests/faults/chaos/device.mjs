import { browserPorts } from "../../../api/web/client/browser.js";

/** @import { HttpRequest, Ports, SocketEvents, StoragePort } from "../../../api/web/client/types.d.ts" */

/**
 * @typedef {object} Device
 * @property {Partial<Ports>} ports
 * @property {StoragePort} storage
 * @property {() => void} kill from now on nothing leaves the app, and nothing reaches it
 */

/**
 * Return one run of the app on a phone whose storage outlives it.
 * @param {Map<string, string>} stored
 * @param {Record<string, string>} headers sent with each request
 * @param {(what: string) => void} violation
 * @param {(what: string) => void} note takes down what happens to its sockets
 * @returns {Device}
 */
export function startDevice(stored, headers, violation, note) {
  let isAlive = true;
  /** @type {(() => void)[]} */
  const stops = [];
  const never = new Promise(() => {});

  /** @param {() => void} act */
  const ifAlive = (act) => () => isAlive && act();

  /**
   * @template T
   * @param {Promise<T>} work
   * @returns {Promise<T>}
   */
  const untilKilled = async (work) => {
    try {
      const result = await work;
      return isAlive ? result : /** @type {Promise<T>} */ (never);
    } catch (error) {
      if (isAlive) throw error;
      return /** @type {Promise<T>} */ (never);
    }
  };

  /** @param {string | null} body of a frame or a request */
  const checkStored = (body) => {
    const id = /"client_message_id":"([^"]+)"/.exec(body ?? "")?.[1];
    if (id && ![...stored.values()].some((value) => value.includes(id))) {
      violation(`a message was sent before it was stored: ${body}`);
    }
  };

  /**
   * @param {string} url
   * @param {SocketEvents} events
   */
  const open = (url, events) => {
    const { pathname } = new URL(url);
    const socket = browserPorts.open(url, {
      opened: ifAlive(() => {
        note(`${pathname} opened`);
        events.opened();
      }),
      received: (text) => ifAlive(() => events.received(text))(),
      closed: (code, retryAfter) =>
        ifAlive(() => {
          note(`${pathname} closed ${code}`);
          events.closed(code, retryAfter);
        })(),
    });
    stops.push(() => socket.close());
    const send = (/** @type {string} */ text) => {
      if (!isAlive) return;
      if (text.includes('"send_message"')) checkStored(text);
      socket.send(text);
    };
    return { send, close: () => socket.close() };
  };

  /** @param {HttpRequest} request */
  const request = async (request) => {
    if (!isAlive) return never;
    if (request.method === "POST" && request.url.endsWith("/messages")) checkStored(request.body);
    const answer = await untilKilled(browserPorts.fetch({ ...request, headers: { ...request.headers, ...headers } }));
    if (answer.status >= 500 && answer.status !== 503) {
      violation(`${answer.status} for ${request.method} ${request.url}: ${answer.text}`);
    }
    return answer;
  };

  const { time } = browserPorts;
  return {
    ports: {
      open,
      fetch: request,
      time: {
        ...time,
        after: (ms, callback) => time.after(ms, ifAlive(callback)),
        every: (ms, callback) => {
          const stop = time.every(ms, ifAlive(callback));
          stops.push(stop);
          return stop;
        },
      },
    },
    storage: {
      get: (key) => untilKilled(Promise.resolve(stored.get(key) ?? null)),
      // A killed app does not go on after a write: what it wrote is lost.
      set: async (key, value) => (isAlive ? void stored.set(key, value) : never),
      remove: async (key) => (isAlive ? void stored.delete(key) : never),
    },
    kill: () => {
      isAlive = false;
      for (const stop of stops) stop();
    },
  };
}
