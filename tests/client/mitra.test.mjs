/** A mitra is online and answers chat requests. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { id, refusal, START, session, World } from "./world.mjs";

const STATUS = "/api/mitra/status";
const ACCEPT = `POST /api/mitra/chat-requests/${id("s", 1)}/accept`;
const at = (ms) => new Date(START + ms).toISOString();
const request = (number, ms = 60_000) => ({
  session_id: id("s", number),
  customer_display_name: "Ani",
  answer_by: at(ms),
});
const status = (is_online) => ({ is_online, heartbeat_cadence_seconds: 30, active_session_count: 0, max_sessions: 3 });
const made = (event, one) => ({ type: "chat_request", event_id: id("e", event), request: one });
const closed = (event, number, reason) => ({
  type: "chat_request_closed",
  event_id: id("e", event),
  session_id: id("s", number),
  reason,
});
const beat = { type: "heartbeat", ref: "heartbeat" };

/** Return a world with both sockets open and a mitra who is online or not. */
async function open(isOnline = true, requests = []) {
  const world = new World();
  const client = await world.client("mitra");
  await world.authenticate("/ws/chat");
  await world.authenticate("/ws/pairing", { requests });
  await world.answer(`GET ${STATUS}`, 200, status(isOnline));
  return { world, client };
}

const asked = (client) => client.state.requests.map((one) => one.session_id);

test("requests of the snapshot replace those on the screen", async () => {
  const { world, client } = await open(true, [request(1)]);
  await world.serve(made(1, request(2)), "/ws/pairing");
  assert.deepEqual(asked(client), [id("s", 1), id("s", 2)]);
  await world.close(1006, "/ws/pairing");
  await world.advance(500);
  await world.authenticate("/ws/pairing", { requests: [request(3)] });
  assert.deepEqual(asked(client), [id("s", 3)]);
});

test("a second request of a session replaces the first, and an older one does not", async () => {
  const { world, client } = await open();
  await world.serve(made(1, request(1, 10_000)), "/ws/pairing");
  await world.serve(made(3, request(1, 70_000)), "/ws/pairing");
  await world.serve(made(2, request(1, 20_000)), "/ws/pairing");
  assert.deepEqual(
    client.state.requests.map((one) => one.answer_by),
    [at(70_000)],
  );
  await world.advance(20_000);
  assert.deepEqual(asked(client), [id("s", 1)]);
});

test("a request is removed at answer_by", async () => {
  const { world, client } = await open();
  await world.serve(made(1, request(1, 10_000)), "/ws/pairing");
  await world.advance(9999);
  assert.deepEqual(asked(client), [id("s", 1)]);
  await world.advance(1);
  assert.deepEqual(asked(client), []);
});

test("a request that was closed is remembered with its reason", async () => {
  const { world, client } = await open(true, [request(1)]);
  await world.serve(closed(2, 1, "taken"), "/ws/pairing");
  assert.deepEqual(asked(client), []);
  for (let number = 2; number <= 22; number++) await world.serve(closed(number + 1, number, "timeout"), "/ws/pairing");
  assert.equal(client.state.closedRequests.length, 20);
  assert.deepEqual(client.state.closedRequests[0], { session_id: id("s", 22), reason: "timeout" });
});

test("an accepted request opens its chat", async () => {
  const { world, client } = await open(true, [request(1)]);
  const accepting = client.accept(id("s", 1));
  await world.answer(ACCEPT, 200, session(1));
  assert.equal((await accepting).id, id("s", 1));
  assert.deepEqual([asked(client), client.state.chats[id("s", 1)].session.status], [[], "active"]);
});

test("a lost race closes the request, a lack of room does not", async () => {
  for (const [code, open_, reason] of [
    ["REQUEST_TAKEN", false, "taken"],
    ["REQUEST_CLOSED", false, "timeout"],
    ["NOT_FOUND", false, "timeout"],
    ["MITRA_AT_CAPACITY", true],
    ["MITRA_OFFLINE", true],
  ]) {
    const { world, client } = await open(true, [request(1)]);
    const accepting = client.accept(id("s", 1));
    await world.answer(ACCEPT, code === "NOT_FOUND" ? 404 : 409, refusal(code));
    await assert.rejects(accepting, { code });
    assert.deepEqual([asked(client).length === 1, client.state.closedRequests[0]?.reason], [open_, reason]);
  }
});

test("a rejected request is removed", async () => {
  const { world, client } = await open(true, [request(1)]);
  const rejecting = client.reject(id("s", 1));
  await world.answer(ACCEPT.replace("accept", "reject"), 204);
  await rejecting;
  assert.deepEqual(asked(client), []);
});

test("heartbeats go over the socket, over REST while there is none, and end offline", async () => {
  const { world, client } = await open(false);
  await world.advance(31_000);
  assert.deepEqual(world.socket("/ws/pairing").take(), [{ type: "ping" }]);
  await world.serve({ type: "pong", server_time: world.serverTime() }, "/ws/pairing");
  const online = client.goOnline();
  await world.answer(`POST ${STATUS}/online`, 200, status(true));
  await online;
  assert.equal(client.state.status.is_online, true);
  await world.wake("visible");
  world.socket("/ws/pairing").take();
  await world.serve({ type: "pong", server_time: world.serverTime() }, "/ws/pairing");
  await world.advance(20_000);
  await world.serve({ type: "typing" }, "/ws/pairing");
  await world.advance(10_000);
  assert.deepEqual(world.socket("/ws/pairing").take(), [beat]);
  world.hidden = true;
  await world.close(1013, "/ws/pairing");
  world.dice = [0.999];
  world.socket("/ws/pairing");
  await world.advance(30_000);
  await world.answer(`POST ${STATUS}/heartbeat`, 200, status(true));
  const offline = client.goOffline();
  await world.answer(`POST ${STATUS}/offline`, 200, status(false));
  await offline;
  await world.advance(60_000);
  assert.deepEqual(world.requests, []);
});

test("a cadence is in service time, also when the scale is known only after the mitra went online", async () => {
  const world = new World();
  const client = await world.client("mitra");
  const online = client.goOnline();
  await world.answer(`POST ${STATUS}/online`, 200, status(true));
  await online;
  await world.authenticate("/ws/pairing", { time_scale: 60 });
  await world.answer(`GET ${STATUS}`, 200, status(true));
  await world.advance(499);
  assert.deepEqual(world.socket("/ws/pairing").take(), []);
  await world.advance(1);
  assert.deepEqual(world.socket("/ws/pairing").take(), [beat]);
});

test("a refused heartbeat shows that the mitra is offline", async () => {
  const { world, client } = await open();
  await world.serve({ type: "error", ref: "heartbeat", code: "MITRA_OFFLINE", message: "" }, "/ws/pairing");
  await world.answer(`GET ${STATUS}`, 200, status(false));
  assert.equal(client.state.status.is_online, false);
});

const check = { action: "presence_check", event: "presence_check", event_id: id("e", 1), lifetime_seconds: "8" };

test("a presence check is answered over REST, and another push is left to the app", async () => {
  const { world, client } = await open();
  assert.equal(await client.receivePush({ ...check, action: "open_accept", event: "chat_request" }), false);
  const answering = client.receivePush(check);
  await world.answer(`POST ${STATUS}/heartbeat`, 200, status(true));
  assert.equal(await answering, true);
  assert.deepEqual(world.socket("/ws/pairing").take(), []);
});

test("a heartbeat that finds no service is repeated until the lifetime of the check ends", async () => {
  const { world, client } = await open();
  await world.close(1006, "/ws/pairing");
  let answered = false;
  const answering = client.receivePush(check).then((was) => {
    answered = was;
  });
  const beats = () => world.requests.filter((one) => one.route === `POST ${STATUS}/heartbeat`).length;
  let count = 0;
  for (let second = 0; second < 8; second++) {
    if (beats()) {
      count++;
      assert.equal(answered, false);
      await world.answer(`POST ${STATUS}/heartbeat`, 503, refusal("UNAVAILABLE"));
    }
    await world.advance(1000);
  }
  await answering;
  assert.deepEqual([count, beats()], [4, 0]);
});

test("a presence check that comes too late shows that the mitra is offline", async () => {
  const { world, client } = await open();
  const answering = client.receivePush(check);
  await world.answer(`POST ${STATUS}/heartbeat`, 409, refusal("MITRA_OFFLINE"));
  await world.answer(`GET ${STATUS}`, 200, status(false));
  assert.equal(await answering, true);
  assert.equal(client.state.status.is_online, false);
});

test("a presence check that starts the app is answered without a socket", async () => {
  const world = new World();
  world.stored.set("tokens", JSON.stringify({ access: "A1", refresh: "R1", user: { id: id("u", 1) } }));
  const client = world.newClient("mitra");
  const answering = client.receivePush(check);
  await world.answer(`POST ${STATUS}/heartbeat`, 200, status(true));
  assert.equal(await answering, true);
});

test("a presence check of a device without a sign-in is not answered", async () => {
  const { world, client } = await open();
  void client.signOut();
  await world.answer("POST /api/shared/auth/logout", 204);
  assert.equal(await client.receivePush(check), true);
  assert.deepEqual(world.requests, []);
});

test("a change of the status is shown with its reason", async () => {
  const { world, client } = await open();
  await world.serve(
    { type: "mitra_status_changed", event_id: id("e", 1), is_online: false, reason: "stale" },
    "/ws/pairing",
  );
  assert.deepEqual([client.state.status.is_online, client.state.statusReason], [false, "stale"]);
  await world.advance(24_000);
  assert.deepEqual(
    world
      .socket("/ws/pairing")
      .take()
      .map((frame) => frame.type),
    ["ack"],
  );
  const online = client.goOnline();
  await world.answer(`POST ${STATUS}/online`, 200, status(true));
  await online;
  assert.deepEqual([client.state.status.is_online, client.state.statusReason], [true, null]);
});

test("the status is read again with each new socket", async () => {
  const { world, client } = await open();
  await world.close(1006, "/ws/pairing");
  await world.advance(500);
  await world.authenticate("/ws/pairing");
  await world.answer(`GET ${STATUS}`, 200, status(false));
  assert.equal(client.state.status.is_online, false);
});
