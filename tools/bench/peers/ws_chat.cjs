"use strict";
/*
 * The chat peer of Node's `ws`, as a team with experience in it would write it. Its frames are those of the service, so
 * both get the same load from the same sockets. A message for another user goes through Redis, because that user may be
 * connected to another process.
 *
 * The messages of a socket are handled one at a time, because otherwise many arrive after a later one.
 *
 * `node ws_chat.cjs PORT`, with the environment of chat.cjs.
 */
const http = require("node:http");
const { WebSocketServer } = require("ws");
const { begin, partnersOf, store, userOf } = require("./chat.cjs");

const PING_MS = 25_000; // as the service

async function main() {
  const [publisher, subscriber] = await begin();
  const server = http.createServer((_, response) => response.writeHead(426).end());
  const sockets = new WebSocketServer({ server });

  sockets.on("connection", (socket) => {
    let user;
    let partners;
    let handled = Promise.resolve();
    const deliver = (text) => socket.send(text);

    async function signIn({ token }) {
      user = userOf(token);
      if (user === undefined) return socket.close(4401);
      partners = await partnersOf(user);
      await subscriber.subscribe(`user:${user}`, deliver);
      socket.send('{"type":"auth_ok"}');
    }

    async function handle(data) {
      const frame = JSON.parse(data);
      if (user === undefined) return signIn(frame);
      const partner = partners.get(frame.session_id);
      if (partner === undefined) return socket.send('{"type":"error","code":"NOT_FOUND"}');
      const { ack, message } = await store(user, frame);
      socket.send(JSON.stringify({ type: "message_ack", ...ack }));
      if (message) publisher.publish(`user:${partner}`, JSON.stringify({ type: "message", ...message }));
    }

    socket.alive = true;
    socket.on("pong", () => {
      socket.alive = true;
    });
    socket.on("message", (data) => {
      handled = handled.then(() => handle(data)).catch(() => socket.close(1011));
    });
    socket.on("error", () => {});
    socket.on("close", () => user && subscriber.unsubscribe(`user:${user}`, deliver));
  });

  setInterval(() => {
    for (const socket of sockets.clients) {
      if (!socket.alive) {
        socket.terminate();
        continue;
      }
      socket.alive = false;
      socket.ping();
    }
  }, PING_MS);
  server.listen(Number(process.argv[2]), "127.0.0.1");
}

main();
