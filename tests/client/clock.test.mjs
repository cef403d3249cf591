/** The service's clock. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { START, user, World } from "./world.mjs";

const ME = "GET /api/client/auth/me";
const at = (ms) => new Date(START + ms).toISOString();

/** Call a route whose answer takes `ms`, with the service's time at `serverMs` in it. */
async function measure(world, client, ms, serverMs) {
  const call = client.call(ME);
  const request = await world.request(ME);
  await world.advance(ms);
  const header = (name) => (name === "X-Server-Time" ? at(serverMs) : null);
  request.resolve({ status: 200, header, text: JSON.stringify(user("customer")) });
  await call;
}

test("a device whose calendar is wrong by an hour has the service's time after one answer", async () => {
  const world = new World();
  world.wallIsAhead = 3_600_000;
  const client = await world.client();
  assert.equal(client.now(), START + 3_600_000);
  await measure(world, client, 200, 1000);
  assert.equal(client.now(), START + 1100);
  assert.equal(client.secondsUntil(at(61_100)), 60);
  assert.equal(client.secondsUntil(at(0)), 0);
  assert.equal(client.secondsUntil(null), 0);
});

test("the narrowest round trip counts, not the latest", async () => {
  const world = new World();
  const client = await world.client();
  await measure(world, client, 20, 10);
  assert.equal(client.now(), START + 20);
  await measure(world, client, 4000, 100); // the answer was slow on its way back
  assert.equal(client.now(), START + 4020);
  await measure(world, client, 10, 4030);
  assert.equal(client.now(), START + 4035);
});

test("an answer that contradicts the estimate replaces it", async () => {
  const world = new World();
  const client = await world.client();
  await measure(world, client, 10, 5);
  await measure(world, client, 400, 60_000); // the device has slept, and its clock with it
  assert.equal(client.now(), START + 60_200);
});

test("an event that has waited says nothing about the clock", async () => {
  const world = new World();
  const client = await world.client();
  await measure(world, client, 10, 5);
  await world.authenticate();
  await world.serve({ type: "typing", session_id: "x", is_typing: true, server_time: at(-30_000) });
  assert.equal(client.now(), START + 10);
});

test("auth_ok measures the clock", async () => {
  const world = new World();
  const client = await world.client();
  const socket = world.socket();
  socket.events.opened();
  await world.advance(100);
  await world.serve({ type: "auth_ok", ...world.hello("/ws/chat"), server_time: at(7000) });
  assert.equal(client.now(), START + 7050);
});

test("service time runs by the scale that auth_ok names", async () => {
  const world = new World();
  const client = await world.client();
  await measure(world, client, 10, 0);
  await world.authenticate("/ws/chat", { time_scale: 60, server_time: at(600) });
  await world.advance(1000);
  assert.equal(client.now(), START + 600 + 60 * 1000);
});

test("service time runs by the scale of the configuration of apps, without a socket", async () => {
  const world = new World();
  const client = world.newClient();
  const call = client.call("GET /api/shared/config/app");
  await world.answer("GET /api/shared/config/app", 200, { maintenance: null, time_scale: 10 });
  await call;
  await world.advance(1000);
  assert.equal(client.now(), START + 10_000);
  const later = client.call(ME);
  await world.answer(ME, 200, user("customer"), { "X-Server-Time": at(10_000) });
  await later;
  await world.advance(1000);
  assert.equal(client.now(), START + 20_000);
});

test("after runs a callback once at a time of the service, however far away", async () => {
  const world = new World();
  const client = await world.client();
  await world.authenticate("/ws/chat", { time_scale: 60, server_time: at(0) });
  let ran = 0;
  client.after(at(1_200_000), () => ran++);
  const cancel = client.after(at(1_200_000), () => assert.fail("it was cancelled"));
  cancel();
  client.after(at(-1), () => ran++);
  assert.equal(ran, 0);
  await world.advance(1);
  assert.equal(ran, 1);
  await world.advance(19_998);
  assert.equal(ran, 1);
  await world.advance(1);
  assert.equal(ran, 2);
  await world.advance(60_000);
  assert.equal(ran, 2);
});
