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
   * Return a base address on this network that leads to the service's `address`.
   * @param {string} address such as `http://127.0.0.1:8000`
   * @returns {Promise<string>}
   */
  async lead(address) {
    const { protocol, hostname, port } = new URL(address);
    const server = createServer((socket) => this.#forward(socket, hostname, Number(port)));
    this.#servers.push(server);
    await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(null)));
    const bound = server.address();
    if (bound === null || typeof bound === "string") throw new Error("The server has no port.");
    return `${protocol}//127.0.0.1:${bound.port}`;
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
   * @param {string} host
   * @param {number} port
   */
  #forward(near, host, port) {
    this.#keep(near);
    if (this.#hangs) return;
    const far = connect(port, host);
    this.#keep(far);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ]) {
      from?.pipe(/** @type {Socket} */ (to));
      from?.once("close", () => to?.destroy());
    }
  }

  /** @param {Socket} socket */
  #keep(socket) {
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
    socket.on("error", () => {}); // `close` follows
  }
}
