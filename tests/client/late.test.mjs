/** Answers and frames that arrive after something newer: a sign-out, a stop, or a later state. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { contents, id, message, refusal, session, settle, tokens, user, World } from "./world.mjs";

const S = id("s", 1);
const P = id("p", 1);
const PAY = "POST /api/client/payment/requests";
const SESSION = `GET /api/shared/chat/sessions/${S}`;
const LOGOUT = "POST /api/shared/auth/logout";
const REFRESH = "POST /api/shared/auth/refresh";
const PROFILE = "PATCH /api/client/auth/profile";
const VERIFY = "POST /api/client/auth/otp/verify";
const STATUS = "GET /api/mitra/status";
const known = { id: id("u", 8), is_anonymous: false };
const other = { id: id("u", 9), is_anonymous: false };
const payment = (status) => ({ payment_request_id: P, status, session_id: null, failure: null });
const status = (is_online) => ({ is_online, heartbeat_cadence_seconds: 30, active_session_count: 0, max_sessions: 3 });
const expiring = { type: "auth_expiring" };
const stored = (world) => JSON.parse(world.stored.get("tokens") ?? "null");

/** Answer a request that was taken before. */
async function reply(request, body, code = 200) {
  request.resolve({ status: code, header: () => null, text: JSON.stringify(body) });
  await settle();
}

/** Make all writes wait; return a function that lets them go on. */
function holdWrites(world) {
  let release;
  world.written = new Promise((resolve) => {
    release = resolve;
  });
  return async () => {
    release();
    await settle();
  };
}

/** Return a world whose known customer is connected. */
async function customer(chat = {}) {
  const world = new World();
  world.stored.set("tokens", JSON.stringify({ access: "A1", refresh: "R1", user: user("customer", known) }));
  const client = await world.client();
  await world.authenticate("/ws/chat", chat);
  await world.authenticate("/ws/pairing");
  return { world, client };
}

/** Sign out, and sign in as another customer. */
async function changeUser(world, client) {
  const signOut = client.signOut();
  await world.answer(LOGOUT, 204);
  await signOut;
  const signIn = client.verifyCode(id("o", 1), "123456");
  await world.answer(VERIFY, 200, tokens(5, "customer", other));
  await signIn;
}

test("a call that waits for its next attempt is not repeated as another user", async () => {
  const { world, client } = await customer();
  const paying = client.pay({ duration_minutes: 12 });
  const refused = assert.rejects(paying, { code: "UNAUTHENTICATED" });
  await world.answer(PAY, 503, refusal("UNAVAILABLE", { retry_after_seconds: 5 }));
  await changeUser(world, client);
  await world.advance(5000);
  assert.deepEqual(world.requests, []);
  await refused;
});

test("an answer for a user who has signed out is not shown to the next one", async () => {
  const { world, client } = await customer();
  const reading = client.readPayment(P);
  const refused = assert.rejects(reading, { code: "UNAUTHENTICATED" });
  const request = await world.request(`GET /api/client/payment/requests/${P}`);
  await changeUser(world, client);
  await reply(request, payment("pending"));
  await refused;
  assert.deepEqual(client.state.payments, {});
});

test("a refresh that is being stored does not undo a sign-out", async () => {
  const { world, client } = await customer();
  await world.serve(expiring);
  const release = holdWrites(world);
  await world.answer(REFRESH, 200, tokens(2, "customer", known));
  const signOut = client.signOut();
  await world.answer(LOGOUT, 204);
  await release();
  await signOut;
  assert.deepEqual([client.state.user, stored(world)], [null, null]);
  const opened = world.sockets.length;
  await client.start();
  assert.equal(world.sockets.length, opened);
});

test("a user who changes during a refresh does not discard its tokens", async () => {
  const { world, client } = await customer();
  const naming = client.setDisplayName("Sari");
  const patch = await world.request(PROFILE);
  await world.serve(expiring);
  const refresh = await world.request(REFRESH);
  await reply(patch, user("customer", { ...known, display_name: "Sari" }));
  await reply(refresh, tokens(2, "customer", known));
  await naming;
  const { access, user: kept } = stored(world);
  assert.deepEqual([access, kept.display_name, client.state.user.display_name], ["A2", "Sari", "Sari"]);
});

test("a tab whose sign-in has ended leaves the tokens that another tab has stored", async () => {
  const { world, client } = await customer();
  world.stored.set("tokens", JSON.stringify({ access: "A7", refresh: "R7", user: user("customer", other) }));
  await world.close(4403);
  assert.deepEqual([client.state.signedOut, stored(world).access], ["revoked", "A7"]);
});

test("a sign-out forgets tokens that another tab has refreshed", async () => {
  const { world, client } = await customer();
  world.stored.set("tokens", JSON.stringify({ access: "A7", refresh: "R7", user: user("customer", known) }));
  const signOut = client.signOut();
  await world.answer(LOGOUT, 204);
  await signOut;
  assert.equal(stored(world), null);
});

test("a status that was read before going online does not end the heartbeats", async () => {
  const world = new World();
  const client = await world.client("mitra");
  await world.authenticate("/ws/pairing");
  const read = await world.request(STATUS);
  const online = client.goOnline();
  await world.answer("POST /api/mitra/status/online", 200, status(true));
  await online;
  await reply(read, status(false));
  assert.equal(client.state.status.is_online, true);
});

test("a status that arrives after stop starts no heartbeats", async () => {
  const world = new World();
  const client = await world.client("mitra");
  await world.authenticate("/ws/pairing");
  const read = await world.request(STATUS);
  await client.stop();
  await reply(read, status(true));
  await world.advance(60_000);
  assert.deepEqual(world.requests, []);
});

test("a payment that was read before its confirmation stays confirmed", async () => {
  const { world, client } = await customer();
  const reading = client.readPayment(P);
  const read = await world.request(`GET /api/client/payment/requests/${P}`);
  const paid = { type: "payment_updated", event_id: id("e", 1), payment_request: payment("confirmed") };
  await world.serve(paid, "/ws/pairing");
  await reply(read, payment("pending"));
  await reading;
  assert.equal(client.state.payments[P].status, "confirmed");
});

test("a search that was read before its end is not shown again", async () => {
  const { world, client } = await customer();
  const event = { type: "pairing_status", payment_request_id: P, session_id: S };
  await world.serve({ ...event, event_id: id("e", 1), status: "searching", asked: 2 }, "/ws/pairing");
  const read = await world.request(SESSION);
  await world.serve({ ...event, event_id: id("e", 2), status: "paired", mitra: null }, "/ws/pairing");
  await reply(read, session(1, { status: "searching", search: { asked: 2, payment_request_id: P } }));
  assert.deepEqual([client.state.search, client.state.searchEnd?.status], [null, "paired"]);
});

test("a sync of a session that the service no longer has is not repeated", async () => {
  const { world } = await customer({ sessions: [session(1, { last_seq: 3 })] });
  const [sync] = world.socket().take();
  await world.serve({ type: "error", ref: sync.ref, code: "NOT_FOUND", message: "" });
  await world.advance(20_000);
  assert.deepEqual(world.socket().take(), []);
});

test("the last messages of a session come after a second loss of the socket", async () => {
  const { world, client } = await customer({ sessions: [session(1)] });
  await world.serve({ type: "message", message: message(1, "a") });
  await world.close(1006);
  await world.advance(500);
  await world.authenticate();
  await world.answer(SESSION, 200, session(1, { status: "completed", last_seq: 2 }));
  await world.close(1006); // before the answer to `sync`
  await world.advance(5000);
  await world.authenticate();
  const [sync] = world.socket().take();
  assert.deepEqual([sync?.type, sync?.after], ["sync", 1]);
  await world.serve({ type: "sync", session_id: S, messages: [message(2, "b")], more: false, epoch: "e1" });
  assert.deepEqual(contents(client), ["a", "b"]);
});

test("a message that is written while the outbox is read is sent", async () => {
  const world = new World();
  const client = world.newClient();
  await client.start();
  const signIn = client.signInAnonymously();
  await world.request("POST /api/shared/auth/anonymous").then((one) => {
    one.resolve({ status: 200, header: () => null, text: JSON.stringify(tokens(1)) });
  });
  while (!client.state.user) await null;
  client.send(S, "a");
  await signIn;
  await world.authenticate("/ws/chat", { sessions: [session(1)] });
  assert.deepEqual(contents(client), ["a"]);
  assert.deepEqual(
    world
      .socket()
      .take()
      .map((frame) => frame.content),
    ["a"],
  );
});

test("a search whose end is looked up late does not hide the next one", async () => {
  const first = session(1, { status: "searching", search: { payment_request_id: P, asked: 1 } });
  const next = session(2, { status: "searching", search: { payment_request_id: id("p", 2), asked: 1 } });
  const { world, client } = await customer();
  await world.close(1006, "/ws/pairing");
  await world.wake("online");
  await world.authenticate("/ws/pairing", { searching: first });
  await world.close(1006, "/ws/pairing");
  await world.wake("online");
  await world.authenticate("/ws/pairing", { searching: null });
  await world.close(1006, "/ws/pairing");
  await world.wake("online");
  await world.authenticate("/ws/pairing", { searching: next });
  await world.answer(SESSION, 200, { ...first, status: "failed", search: null });
  await world.answer(`GET /api/client/payment/requests/${P}`, 200, payment("failed"));
  assert.deepEqual([client.state.search.id, client.state.searchEnd], [next.id, null]);
});

test("a pending payment is not read after stop, and again after start", async () => {
  const { world, client } = await customer();
  const paying = client.pay({ duration_minutes: 12 });
  await world.answer(PAY, 201, payment("pending"));
  await paying;
  await client.stop();
  await world.advance(20_000);
  assert.deepEqual(world.requests, []);
  await client.start();
  await world.advance(4000);
  await world.answer(`GET /api/client/payment/requests/${P}`, 200, payment("pending"));
  assert.equal(client.state.payments[P].status, "pending");
});
