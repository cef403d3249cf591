/** A customer pays and searches. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { id, refusal, session, settle, user, World } from "./world.mjs";

const PAY = "POST /api/client/payment/requests";
const P = id("p", 1);
const S = id("s", 1);
const READ = `GET /api/client/payment/requests/${P}`;
const SESSION = `GET /api/shared/chat/sessions/${S}`;
const request = (more = {}) => ({ payment_request_id: P, status: "pending", session_id: null, failure: null, ...more });
const searching = (asked, more = {}) =>
  session(1, { status: "searching", expires_at: null, mitra: null, search: { asked, payment_request_id: P }, ...more });
const status = (name, more = {}) => ({
  type: "pairing_status",
  payment_request_id: P,
  session_id: S,
  status: name,
  ...more,
});

/** Return a world with both sockets open. */
async function open(snapshot = {}) {
  const world = new World();
  const client = await world.client();
  await world.authenticate("/ws/chat");
  await world.authenticate("/ws/pairing", snapshot);
  return { world, client };
}

test("a payment without an answer is repeated with its key, also after a reload; the next one has another", async () => {
  const { world, client } = await open();
  const wish = { duration_minutes: 12 };
  const lost = client.pay(wish);
  const first = await world.answer(PAY, 0);
  await world.advance(500);
  const second = await world.request(PAY);
  assert.equal(second.headers["Idempotency-Key"], first.headers["Idempotency-Key"]);
  await client.stop();
  const reloaded = await world.client();
  const paid = reloaded.pay(wish);
  const third = await world.answer(PAY, 201, request());
  assert.equal(third.headers["Idempotency-Key"], first.headers["Idempotency-Key"]);
  await world.answer(READ, 200, request({ status: "confirmed" })); // the repeated answer may be old
  assert.equal((await paid).status, "confirmed");
  assert.equal(reloaded.state.payments[P].status, "confirmed");
  const next = reloaded.pay(wish);
  const fourth = await world.answer(PAY, 201, request());
  assert.notEqual(fourth.headers["Idempotency-Key"], first.headers["Idempotency-Key"]);
  await next;
  lost.catch(() => {});
});

test("a refused payment frees its key", async () => {
  const { world, client } = await open();
  const refused = client.pay({ duration_minutes: 12 });
  const first = await world.answer(PAY, 409, refusal("DISPLAY_NAME_REQUIRED"));
  await assert.rejects(refused, { code: "DISPLAY_NAME_REQUIRED" });
  client.pay({ duration_minutes: 12 }).catch(() => {});
  const second = await world.request(PAY);
  assert.notEqual(second.headers["Idempotency-Key"], first.headers["Idempotency-Key"]);
});

test("a request waits no longer than the user would, and gives up after six attempts", async () => {
  const { world, client } = await open();
  const long = client.call("GET /api/client/auth/me");
  await world.answer("GET /api/client/auth/me", 429, refusal("RATE_LIMITED", { retry_after_seconds: 31 }));
  await assert.rejects(long, { code: "RATE_LIMITED", retryAfterSeconds: 31 });
  const failing = client.call("GET /api/client/auth/me");
  for (const pause of [500, 1000, 2000, 4000, 5000]) {
    await world.answer("GET /api/client/auth/me", 500, refusal("INTERNAL_ERROR"), { "X-Request-Id": "r1" });
    await world.advance(pause - 1);
    assert.deepEqual(world.requests, []);
    await world.advance(1);
  }
  await world.answer("GET /api/client/auth/me", 500, refusal("INTERNAL_ERROR"), { "X-Request-Id": "r1" });
  await assert.rejects(failing, { code: "INTERNAL_ERROR", status: 500, requestId: "r1" });
});

test("a refusal by a proxy without JSON is an error with the status", async () => {
  const { world, client } = await open();
  const call = client.call("GET /api/client/auth/me");
  const asked = await world.request("GET /api/client/auth/me");
  asked.resolve({ status: 404, header: () => null, text: "<html>" });
  await assert.rejects(call, { code: "ERROR", status: 404 });
});

test("a pending payment is read while no socket is open, and when one has opened", async () => {
  const { world, client } = await open();
  const paying = client.pay({ duration_minutes: 12 });
  await world.answer(PAY, 201, request());
  await paying;
  await world.advance(8000);
  assert.deepEqual(world.requests, []);
  world.dice = [0.99];
  for (let n = 0; n < 4; n++) {
    await world.close(1006, "/ws/pairing");
    await world.advance(1);
    await world.wake("online");
    world.requests.length = 0;
  }
  await world.close(1006, "/ws/pairing");
  await world.advance(4000);
  await world.answer(READ, 200, request());
  await world.wake("online");
  await world.answer(READ, 200, request());
  await world.authenticate("/ws/pairing");
  await world.answer(READ, 200, request({ status: "confirmed" }));
  assert.equal(client.state.payments[P].status, "confirmed");
});

test("the number of mitras asked is the largest one that is known, also while the session is read", async () => {
  const { world, client } = await open();
  await world.serve(status("searching", { event_id: id("e", 1), asked: 2 }), "/ws/pairing");
  await world.serve(status("searching", { asked: 5 }), "/ws/pairing");
  const late = await world.request(SESSION);
  await world.answer(SESSION, 200, searching(1));
  assert.equal(client.state.search.search.asked, 5);
  late.resolve({ status: 200, header: () => null, text: JSON.stringify(searching(1)) });
  await settle();
  assert.equal(client.state.search.search.asked, 5);
});

test("the search is shown with the number of mitras asked, until a mitra is found", async () => {
  const { world, client } = await open();
  await world.serve(status("searching", { event_id: id("e", 1), asked: 2 }), "/ws/pairing");
  await world.answer(SESSION, 200, searching(2));
  assert.equal(client.state.search.search.asked, 2);
  await world.serve(status("searching", { asked: 5 }), "/ws/pairing");
  await world.serve(status("searching", { asked: 4 }), "/ws/pairing");
  assert.equal(client.state.search.search.asked, 5);
  const mitra = { id: id("u", 2), display_name: "Dewi" };
  await world.serve(status("paired", { event_id: id("e", 2), mitra }), "/ws/pairing");
  const end = { status: "paired", session_id: S, payment_request_id: P, cause_tag: undefined, mitra };
  assert.deepEqual([client.state.search, client.state.searchEnd], [null, end]);
  assert.deepEqual(
    world
      .socket("/ws/pairing")
      .take()
      .map((frame) => frame.type),
    ["ack", "ack"],
  );
});

test("a late event of an ended search changes nothing", async () => {
  const { world, client } = await open({ searching: searching(1) });
  await world.serve(status("failed", { event_id: id("e", 5), cause_tag: "no_mitra_available" }), "/ws/pairing");
  await world.serve(status("searching", { event_id: id("e", 3), asked: 1 }), "/ws/pairing");
  await world.serve(status("searching", { asked: 9 }), "/ws/pairing");
  await world.answer(SESSION, 200, session(1, { status: "failed" }));
  assert.deepEqual([client.state.search, client.state.searchEnd.cause_tag], [null, "no_mitra_available"]);
  assert.equal(world.requests.length, 0);
});

test("a search that ended while the device was away is looked up", async () => {
  const { world, client } = await open({ searching: searching(1) });
  assert.equal(client.state.search.id, S);
  await world.close(1006, "/ws/pairing");
  await world.advance(500);
  await world.authenticate("/ws/pairing", { searching: null });
  await world.answer(SESSION, 200, session(1, { status: "cancelled", mitra: null }));
  await world.answer(READ, 200, request({ status: "failed_pairing", failure: { cause_tag: "customer_cancelled" } }));
  assert.equal(client.state.searchEnd.status, "cancelled");
});

test("a payment is replaced by its newest event", async () => {
  const { world, client } = await open();
  const update = (number, name) => ({
    type: "payment_updated",
    event_id: id("e", number),
    payment_request: request({ status: name }),
  });
  await world.serve(update(2, "expired"), "/ws/pairing");
  await world.serve(update(1, "abandoned"), "/ws/pairing");
  assert.equal(client.state.payments[P].status, "expired");
  assert.equal(world.told.length, 1);
});

test("the actions on a payment keep what the service answers", async () => {
  const { world, client } = await open();
  for (const [act, route, name] of [
    [
      () => client.payReturning({ mitra_id: "x", mode: "chat", duration_minutes: 12 }),
      "POST /api/client/chat/returning",
      "pending",
    ],
    [() => client.extend(S, 12), PAY, "pending"],
    [() => client.abandonPayment(P), `POST /api/client/payment/requests/${P}/abandon`, "abandoned"],
    [() => client.cancelSearch(P), "POST /api/client/chat/cancel", "failed_pairing"],
    [() => client.fallBackToBlast(P), "POST /api/client/chat/fallback-to-blast", "confirmed"],
    [() => client.retarget(P, "x"), "POST /api/client/chat/retarget", "confirmed"],
  ]) {
    const acted = act();
    await world.answer(route, 200, request({ status: name }));
    assert.equal((await acted).status, name);
    assert.equal(client.state.payments[P].status, name);
  }
});

test("a party is reported, blocked and unblocked, and a refusal is an error with its code", async () => {
  const { world, client } = await open();
  const at = `/api/shared/chat/sessions/${S}`;
  const reporting = client.report(S, "rude", "Kasar");
  const { body } = await world.answer(`POST ${at}/report`, 201, { id: id("r", 1), session_id: S, reason: "rude" });
  assert.deepEqual(body, { reason: "rude", message: "Kasar" });
  assert.equal((await reporting).reason, "rude");
  const again = client.report(S, "other");
  assert.deepEqual((await world.answer(`POST ${at}/report`, 409, refusal("ALREADY_REPORTED"))).body, {
    reason: "other",
    message: null,
  });
  await assert.rejects(again, { code: "ALREADY_REPORTED", status: 409 });
  const block = { session_id: S, display_name: "Ayu", blocked_at: "2026-11-21T06:30:00Z" };
  const blocking = client.block(S);
  await world.answer(`POST ${at}/block`, 201, block);
  assert.deepEqual(await blocking, block);
  const page = { items: [block], next_cursor: "c" };
  for (const [cursor, route] of [
    [undefined, "GET /api/shared/blocks"],
    ["c", "GET /api/shared/blocks?cursor=c"],
  ]) {
    const listing = client.blocks(cursor);
    await world.answer(route, 200, page);
    assert.deepEqual(await listing, page);
  }
  const unblocking = client.unblock(S);
  await world.answer(`DELETE ${at}/block`, 204);
  assert.equal(await unblocking, undefined);
});

test("refusals of payments keep what an app shows: the new price, and until when an account is blocked", async () => {
  const { world, client } = await open();
  for (const [act, route, status, code, details] of [
    [() => client.extend(S, 12, 12_000), PAY, 409, "PRICE_CHANGED", { amount: 15_000 }],
    [() => client.pay({ duration_minutes: 12 }), PAY, 403, "ACCOUNT_BLOCKED", { until: "2026-11-22T06:30:00Z" }],
    [() => client.retarget(P, "x"), "POST /api/client/chat/retarget", 409, "FAILURE_ACTIONED", {}],
    [() => client.linkPhone("o", "1"), "POST /api/client/auth/link/phone", 403, "RECENT_SIGN_IN_REQUIRED", {}],
  ]) {
    const refused = act();
    await world.answer(route, status, refusal(code, { details }));
    await assert.rejects(refused, { code, status, details });
  }
});

test("a refund of a payment is shown as the event reports it", async () => {
  const { world, client } = await open();
  const refund = { amount: 5_000, status: "succeeded", settled_at: "2026-11-21T06:40:00Z", refunded: 5_000 };
  const updated = { type: "payment_updated", event_id: id("e", 1) };
  await world.serve({ ...updated, payment_request: request({ status: "consumed", refund }) }, "/ws/pairing");
  assert.deepEqual(client.state.payments[P].refund, refund);
});

test("links are shown and stored, also those of another device", async () => {
  const { world, client } = await open();
  const linked = user("customer", { identities: ["a"] });
  const linking = client.linkIdentity("a", "token");
  const { body } = await world.answer("POST /api/client/auth/link/identity-a", 200, linked);
  assert.deepEqual(body, { identity_token: "token", nonce: null });
  await linking;
  assert.deepEqual(client.state.user.identities, ["a"]);
  const phone = client.linkPhone("o", "123456");
  await world.answer("POST /api/client/auth/link/phone", 200, { ...linked, phone: "+62811" });
  assert.equal((await phone).phone, "+62811");
  const unlinking = client.unlinkIdentity("a");
  await world.answer("DELETE /api/client/auth/link/identity-a", 204);
  await world.answer("GET /api/client/auth/me", 200, user("customer", { identities: [] }));
  await unlinking;
  assert.deepEqual(client.state.user.identities, []);
  const told = { type: "account_updated", event_id: id("e", 1), method: "b", linked: true };
  await world.serve(told, "/ws/pairing");
  await world.answer("GET /api/client/auth/me", 200, user("customer", { identities: ["b"] }));
  await settle();
  assert.deepEqual(client.state.user.identities, ["b"]);
  assert.deepEqual(JSON.parse(world.stored.get("tokens")).user.identities, ["b"]);
});

test("a changed name is shown and stored", async () => {
  const { world, client } = await open();
  const naming = client.setDisplayName("Budi");
  const { body } = await world.answer(
    "PATCH /api/client/auth/profile",
    200,
    user("customer", { display_name: "Budi" }),
  );
  assert.deepEqual(body, { display_name: "Budi" });
  await naming;
  assert.equal(client.state.user.display_name, "Budi");
  assert.equal(JSON.parse(world.stored.get("tokens")).user.display_name, "Budi");
  client.setLocale("en");
  const reading = client.refreshUser();
  const { headers } = await world.answer("GET /api/client/auth/me", 200, user("customer"));
  assert.deepEqual([headers["Accept-Language"], headers["X-Locale"]], ["en", "en"]);
  await reading;
  assert.equal(client.state.user.display_name, "Ani");
  await settle();
});
