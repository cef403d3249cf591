/** Sockets: waits before a reconnect, close codes, silence, and the page's visibility. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { World } from "./world.mjs";

/** Check that the next socket is opened after `ms`, and not before. */
async function opensAfter(world, ms) {
  const opened = world.opened();
  await world.advance(ms - 1);
  assert.equal(world.opened(), opened, `opened before ${ms} ms`);
  await world.advance(1);
  assert.equal(world.opened(), opened + 1, `not opened after ${ms} ms`);
}

/** Return a world in which only the chat socket matters; the dice show one half. */
async function connected(role) {
  const world = new World();
  const client = await world.client(role);
  await world.authenticate("/ws/pairing");
  await world.authenticate("/ws/chat");
  return { world, client };
}

test("the waits grow with each failure, and begin again after a socket that lived for 10 s", async () => {
  const { world } = await connected();
  await world.close(1006);
  for (const wait of [500, 1000, 2000, 4000, 5000, 15_000]) {
    await opensAfter(world, wait);
    await world.close(1006);
  }
  await opensAfter(world, 15_000);
  await world.authenticate();
  await world.advance(9999);
  await world.close(1006);
  await opensAfter(world, 15_000);
  await world.authenticate();
  await world.advance(10_000);
  await world.close(1006);
  await opensAfter(world, 500);
});

test("a socket that was opened without auth_ok is a failure", async () => {
  const { world } = await connected();
  await world.close(1006);
  await world.advance(500);
  world.socket().events.opened();
  await world.advance(9000);
  await world.close(1006);
  await opensAfter(world, 1000);
});

for (const [code, first] of [
  [1012, 2500],
  [1013, 5000],
  [4408, 500],
  [4429, 500],
  [1009, 500],
]) {
  test(`after ${code} the first wait is ${first} ms of its range`, async () => {
    const { world } = await connected();
    await world.close(code);
    await opensAfter(world, first);
  });
}

test("1012 and 1013 never shorten a longer wait", async () => {
  const { world } = await connected();
  for (let n = 0; n < 5; n++) {
    await world.close(1006);
    await world.advance(30_000);
  }
  await world.close(1012);
  await opensAfter(world, 15_000);
});

test("a refused upgrade waits as long as the service says, and a random second more", async () => {
  const { world } = await connected();
  await world.close(1006);
  await world.advance(500);
  await world.close(null, "/ws/chat", 20);
  await opensAfter(world, 20_500);
});

test("4409 ends the connection until the app starts it again", async () => {
  const { world, client } = await connected();
  await world.close(4409);
  assert.deepEqual([client.state.connection, client.state.signedOut], ["stopped", null]);
  await world.wake("online");
  await world.advance(120_000);
  assert.equal(world.opened(), 1);
  await client.start();
  assert.equal(world.opened(), 2);
});

test("an older socket is not heard", async () => {
  const { world, client } = await connected();
  const older = world.socket();
  await world.close(1006);
  await world.advance(500);
  await world.authenticate();
  older.events.closed(4403);
  older.events.received(JSON.stringify({ type: "auth_expiring" }));
  await world.advance(0);
  assert.deepEqual([client.state.connection, client.state.signedOut, world.requests.length], ["open", null, 0]);
});

test("the connection is open when every socket has its auth_ok", async () => {
  const world = new World();
  const client = await world.client();
  assert.equal(client.state.connection, "connecting");
  await world.authenticate("/ws/pairing");
  assert.equal(client.state.connection, "connecting");
  await world.authenticate("/ws/chat");
  assert.equal(client.state.connection, "open");
  await client.stop();
  assert.equal(client.state.connection, "stopped");
});

test("a silent socket is asked after ping_seconds and dropped 10 s later", async () => {
  const { world, client } = await connected();
  await world.advance(24_999);
  assert.deepEqual(world.socket().take(), []);
  await world.advance(1);
  assert.deepEqual(world.socket().take(), [{ type: "ping" }]);
  await world.serve({ type: "pong", server_time: world.serverTime() });
  await world.serve({ type: "pong", server_time: world.serverTime() }, "/ws/pairing");
  await world.advance(25_000);
  assert.deepEqual(world.socket().take(), [{ type: "ping" }]);
  await world.advance(9999);
  assert.equal(world.socket().isClosed, false);
  await world.advance(1);
  assert.equal(world.socket().isClosed, true);
  assert.equal(client.state.connection, "connecting");
  await opensAfter(world, 500);
});

test("any frame counts as a sign of life", async () => {
  const { world } = await connected();
  await world.advance(20_000);
  await world.serve({ type: "message_status", session_id: "x", status: "read", up_to: 1 });
  await world.advance(24_999);
  assert.deepEqual(world.socket().take(), []);
});

test("a socket that does not open within 10 s is given up", async () => {
  const { world } = await connected();
  await world.close(1006);
  await world.advance(500);
  await world.advance(10_000);
  assert.equal(world.socket().isClosed, true);
  await opensAfter(world, 1000);
});

test("an open socket is asked at once when the page is visible or the network is back", async () => {
  for (const change of ["visible", "online"]) {
    const { world } = await connected();
    await world.wake(change);
    assert.deepEqual(world.socket().take(), [{ type: "ping" }]);
    await world.advance(10_000);
    assert.equal(world.socket().isClosed, true);
  }
});

test("a ping without an answer dies with its socket", async () => {
  const { world } = await connected();
  await world.advance(25_000);
  await world.close(1006);
  await world.advance(500);
  await world.authenticate();
  await world.advance(9999);
  assert.equal(world.socket().isClosed, false);
});

test("the network's return ends a wait", async () => {
  const { world } = await connected();
  await world.close(1006);
  await world.wake("visible");
  assert.equal(world.opened(), 1);
  await world.wake("online");
  assert.equal(world.opened(), 2);
  await world.advance(600);
  assert.equal(world.opened(), 2);
});

test("a customer's hidden page reconnects when it is visible", async () => {
  const { world } = await connected();
  world.hidden = true;
  await world.close(1006);
  await world.advance(120_000);
  assert.equal(world.opened(), 1);
  world.hidden = false;
  await world.wake("visible");
  assert.equal(world.opened(), 2);
});

test("a mitra's hidden page reconnects at once", async () => {
  const { world } = await connected("mitra");
  world.hidden = true;
  await world.close(1006);
  await opensAfter(world, 500);
});

test("stop closes the sockets, and nothing opens them again", async () => {
  const { world, client } = await connected();
  await world.close(1006);
  await client.stop();
  await world.wake("online");
  await world.advance(120_000);
  assert.equal(world.opened(), 1);
  assert.equal(world.socket("/ws/pairing").isClosed, true);
});

test("a second auth_ok does not make a socket younger", async () => {
  const { world } = await connected();
  await world.close(1006);
  await world.advance(500);
  await world.authenticate();
  await world.advance(9000);
  await world.serve({ type: "auth_ok", ...world.hello("/ws/chat") });
  await world.advance(1000);
  await world.close(1006);
  await opensAfter(world, 500);
});
