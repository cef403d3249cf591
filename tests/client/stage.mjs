/** The world of one run of a client under a vector: what the client does is kept in its order. */

import { settle, World } from "./world.mjs";

export class Stage extends World {
  /** What the client did that the player has not taken yet. */
  did = [];
  random = 0.5;

  /** Return the stage of the next run on the same device: the storage stays, nothing else. */
  next() {
    const stage = new Stage();
    const { now, wallIsAhead, random, storageFails, made } = this;
    Object.assign(stage, { now, wallIsAhead, random, storageFails, made, stored: new Map(this.stored) });
    return stage;
  }

  get ports() {
    const { time, ...others } = super.ports;
    return {
      ...others,
      time: { ...time, random: () => this.random },
      open: (url, events) => {
        const port = others.open(url, events);
        const socket = this.sockets.at(-1);
        this.did.push({ open: socket.path });
        const send = (text) => {
          port.send(text);
          if (!socket.isLost) this.did.push({ frame: JSON.parse(text), path: socket.path });
        };
        return { send, close: port.close };
      },
      fetch: (request) => {
        const answer = others.fetch(request);
        const { route, ...rest } = this.requests.pop();
        this.did.push({ request: route, ...rest });
        return answer;
      },
    };
  }

  /** Give the client a frame, unless the connection is lost. */
  async deliver(frame, path) {
    if (!this.socket(path).isLost) this.socket(path).events.received(JSON.stringify(frame));
    await settle();
  }
}
