import { connect, createServer } from "node:net";

/** @import { Server, Socket } from "node:net" */

/** The network of one phone: forwards its connections to the service, and fails on demand. */
export class Network {
  /** @type {Server[]} */
  #servers = [];
  /** @type {Set<Socket>} */
  #sockets = new Set();
  #hangs = false;

  /**
   * Return a base address on this network that leads to the first of these addresses of the service that takes
   * connections, as a balancer would.
   * @param {string[]} addresses such as `http://127.0.0.1:8000`
   * @returns {Promise<string>}
   */
  async lead(...addresses) {
    const urls = addresses.map((address) => new URL(address));
    const server = createServer((socket) => {
      this.#keep(socket);
      this.#forward(socket, urls);
    });
    this.#servers.push(server);
    await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(null)));
    const bound = server.address();
    if (bound === null || typeof bound === "string") throw new Error("The server has no port.");
    return `${urls[0]?.protocol}//127.0.0.1:${bound.port}`;
  }

  /** Reset all connections. */
  cut() {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  /**
   * Carry nothing for some time, without closing a connection; then reset those that were open.
   * @param {number} seconds
   */
  async hang(seconds) {
    this.#hangs = true;
    for (const socket of this.#sockets) {
      socket.unpipe();
      socket.pause();
    }
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
    this.#hangs = false;
    this.cut();
  }

  /** Reset all connections, and take no more. */
  close() {
    for (const server of this.#servers) server.close();
    this.cut();
  }

  /**
   * @param {Socket} near
   * @param {URL[]} urls
   */
  #forward(near, [url, ...others]) {
    if (this.#hangs) return;
    if (!url || near.destroyed) {
      near.destroy();
      return;
    }
    const far = connect(Number(url.port), url.hostname);
    this.#keep(far);
    const next = () => this.#forward(near, others);
    far.once("error", next);
    far.once("connect", () => {
      far.off("error", next);
      for (const [from, to] of /** @type {[Socket, Socket][]} */ ([
        [near, far],
        [far, near],
      ])) {
        from.pipe(to);
        from.once("close", () => to.destroy());
      }
      if (near.destroyed) far.destroy();
    });
  }

  /** @param {Socket} socket */
  #keep(socket) {
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
    socket.on("error", () => {}); // `close` follows
  }
}
