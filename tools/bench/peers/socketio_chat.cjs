"use strict";
/*
 * The chat peer of Node's socket.io, as a team with experience in it would write it: its Redis adapter, rooms by user,
 * acknowledgements by its callbacks, WebSockets only and without compression.
 *
 * The messages of a socket are handled one at a time, because otherwise many arrive after a later one.
 *
 * `node socketio_chat.cjs PORT`, with the environment of chat.cjs.
 */
const http = require("node:http");
const { createAdapter } = require("@socket.io/redis-adapter");
const { Server } = require("socket.io");
const { begin, partnersOf, store, userOf } = require("./chat.cjs");

async function main() {
  const adapter = createAdapter(...(await begin()));
  const server = http.createServer((_, response) => response.writeHead(426).end());
  const io = new Server(server, { adapter, transports: ["websocket"] });

  io.use(async (socket, next) => {
    const user = userOf(socket.handshake.auth.token);
    if (user === undefined) return next(new Error("UNAUTHENTICATED"));
    socket.data = { user, partners: await partnersOf(user) };
    next();
  });

  io.on("connection", (socket) => {
    const { user, partners } = socket.data;
    let handled = Promise.resolve();
    socket.join(user);

    async function handle(frame, acknowledge) {
      const partner = partners.get(frame.session_id);
      if (partner === undefined) return acknowledge({ error: "NOT_FOUND" });
      const { ack, message } = await store(user, frame);
      acknowledge(ack);
      if (message) io.to(partner).emit("message", message);
    }

    socket.on("message", (frame, acknowledge) => {
      handled = handled.then(() => handle(frame, acknowledge)).catch(() => acknowledge({ error: "INTERNAL" }));
    });
  });
  server.listen(Number(process.argv[2]), "127.0.0.1");
}

main();
