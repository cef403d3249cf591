/** Own messages on their way: stored first, repeated unchanged, in order, and through a reload. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { contents, id, message, refusal, session, settle, user, World } from "./world.mjs";

const S = id("s", 1);
const KEY = `${user("customer").id}:outbox`;
const POST = `POST /api/shared/chat/sessions/${S}/messages`;
const stored = (world) => JSON.parse(world.stored.get(KEY) ?? "[]").map((entry) => entry.content);
const sent = (world) =>
  world
    .socket()
    .take()
    .map((frame) => frame.content);
const ack = (clientMessageId, seq) => ({
  type: "message_ack",
  ref: clientMessageId,
  client_message_id: clientMessageId,
  id: id("f", seq),
  seq,
  created_at: "",
});
const error = (ref, code, more = {}) => ({ type: "error", ref, code, message: code, ...more });

/** Return a world with one running session. */
async function chatting() {
  const world = new World();
  const client = await world.client();
  await world.authenticate("/ws/pairing");
  await world.authenticate("/ws/chat", { sessions: [session(1)] });
  return { world, client };
}

test("a message is stored before it is sent", async () => {
  const { world, client } = await chatting();
  let release;
  world.written = new Promise((resolve) => {
    release = resolve;
  });
  client.send(S, "a");
  await settle();
  assert.deepEqual([contents(client), sent(world)], [["a"], []]);
  release();
  await settle();
  assert.deepEqual(sent(world), ["a"]);
});

test("messages survive a reload and are sent again unchanged", async () => {
  const { world, client } = await chatting();
  await client.stop();
  const clientMessageId = client.send(S, "a", { mood: "kind" });
  await settle();
  assert.deepEqual(sent(world), []);
  const reloaded = await world.client();
  await world.authenticate("/ws/chat", { sessions: [session(1)] });
  const [frame] = world.socket().take();
  assert.deepEqual([frame.client_message_id, frame.content, frame.metadata], [clientMessageId, "a", { mood: "kind" }]);
  assert.equal(reloaded.state.chats[S].messages[0].state, "sending");
  await world.serve(ack(clientMessageId, 1));
  assert.deepEqual([stored(world), reloaded.state.chats[S].messages[0].seq], [[], 1]);
});

test("a message whose acknowledgement was lost is found by sync and shown once", async () => {
  const { world, client } = await chatting();
  const clientMessageId = client.send(S, "a");
  await settle();
  await world.close(1006);
  await world.advance(500);
  await world.authenticate("/ws/chat", { sessions: [session(1, { last_seq: 1 })] });
  const frames = world.socket().take();
  assert.deepEqual(
    frames.map((frame) => frame.type),
    ["sync", "send_message"],
  );
  const own = message(1, "a", { sender_type: "customer", client_message_id: clientMessageId });
  await world.serve({ type: "sync", session_id: S, messages: [own], more: false, epoch: "e1" });
  await world.serve(ack(clientMessageId, 1));
  assert.deepEqual([contents(client), stored(world)], [["a"], []]);
});

test("an acknowledged message behind a hole stays visible until the hole is filled", async () => {
  const { world, client } = await chatting();
  const clientMessageId = client.send(S, "b");
  await settle();
  world.socket().take();
  await world.serve(ack(clientMessageId, 2));
  assert.deepEqual(contents(client), ["b"]);
  assert.equal(world.socket().take()[0].type, "sync");
  await world.serve({ type: "sync", session_id: S, messages: [message(1, "a")], more: false, epoch: "e1" });
  assert.deepEqual(contents(client), ["a", "b"]);
});

test("TOO_FAST: the session waits, then sends in order, each message after the answer to the one before", async () => {
  const { world, client } = await chatting();
  const [a, b, c] = ["a", "b", "c"].map((content) => client.send(S, content));
  await settle();
  assert.deepEqual(sent(world), ["a", "b", "c"]);
  await world.serve(ack(a, 1));
  await world.serve(error(b, "TOO_FAST", { retry_after_seconds: 3 }));
  await world.serve(error(c, "TOO_FAST", { retry_after_seconds: 3 }));
  client.send(S, "d");
  await world.advance(2999);
  assert.deepEqual(sent(world), []);
  await world.advance(1);
  assert.deepEqual(sent(world), ["b"]);
  await world.serve(ack(b, 2));
  assert.deepEqual(sent(world), ["c"]);
  await world.serve(ack(c, 3));
  assert.deepEqual(sent(world), ["d"]);
});

test("a message that may be stored is sent again after retry_after_seconds", async () => {
  for (const code of ["UNAVAILABLE", "INTERNAL_ERROR"]) {
    const { world, client } = await chatting();
    const a = client.send(S, "a");
    await settle();
    world.socket().take();
    await world.serve(error(a, code, { retry_after_seconds: 4 }));
    await world.advance(3999);
    assert.deepEqual(sent(world), []);
    await world.advance(1);
    assert.deepEqual(sent(world), ["a"]);
  }
});

test("a message that is refused for good is shown, blocks no other, and can be sent again or given up", async () => {
  const { world, client } = await chatting();
  const [a, b] = ["a", "b"].map((content) => client.send(S, content));
  await settle();
  world.socket().take();
  await world.serve(error(a, "SESSION_NOT_ACTIVE"));
  await world.answer(`GET /api/shared/chat/sessions/${S}`, 200, session(1, { status: "expired" }));
  assert.equal(client.state.chats[S].session.status, "expired");
  const [refused] = client.state.chats[S].messages;
  assert.deepEqual([refused.state, refused.error.code, refused.content], ["refused", "SESSION_NOT_ACTIVE", "a"]);
  await world.advance(2000);
  assert.deepEqual(sent(world), ["b"]);
  await world.serve(ack(b, 1));
  client.resend(a);
  await settle();
  assert.deepEqual(sent(world), ["a"]);
  await world.serve(error(a, "VALIDATION_ERROR"));
  await settle();
  client.discard(a);
  await settle();
  assert.deepEqual([contents(client), stored(world)], [["b"], []]);
});

test("a refusal survives a reload", async () => {
  const { world, client } = await chatting();
  const a = client.send(S, "a");
  await settle();
  await world.serve(error(a, "VALIDATION_ERROR"));
  await client.stop();
  const reloaded = await world.client();
  await world.authenticate("/ws/chat", { sessions: [session(1)] });
  assert.equal(reloaded.state.chats[S].messages[0].error.code, "VALIDATION_ERROR");
  assert.deepEqual(sent(world), []);
});

test("a message of more than 16 KiB goes over REST, and later ones wait for it", async () => {
  const { world, client } = await chatting();
  const large = "\u{1F600}".repeat(4000);
  const a = client.send(S, large, { mood: "x".repeat(800) });
  client.send(S, "b");
  const { body } = await world.answer(POST, 503, refusal("UNAVAILABLE", { retry_after_seconds: 1 }));
  assert.deepEqual([body.client_message_id, body.content, body.metadata.mood.length], [a, large, 800]);
  assert.deepEqual(sent(world), []);
  await world.advance(1000);
  const answer = message(1, large, { sender_type: "customer", client_message_id: a });
  await world.answer(POST, 201, answer);
  assert.equal(client.state.chats[S].messages[0].seq, 1);
  assert.deepEqual(sent(world), ["b"]);
});

test("a message of more than 16 KiB does not overtake an earlier one", async () => {
  const { world, client } = await chatting();
  const a = client.send(S, "a");
  const large = client.send(S, "\u{1F600}".repeat(4000), { mood: "x".repeat(800) });
  await settle();
  assert.deepEqual([sent(world), world.requests], [["a"], []]);
  await world.serve(ack(a, 1));
  assert.equal(world.requests[0].body.client_message_id, large);
});

for (const [name, spoil] of Object.entries({
  "get no answer": (world) => world.advance(2000),
  "get an error without a ref": async (world) => {
    await world.serve({ type: "error", code: "INVALID_FRAME", message: "" });
    await world.advance(2000);
  },
  "close the socket": async (world) => {
    await world.close(1009);
    await world.advance(10_000);
    await world.authenticate("/ws/chat", { sessions: [session(1)] });
  },
})) {
  test(`a message whose frames ${name} goes over REST, whose refusal ends the repeats`, async () => {
    const { world, client } = await chatting();
    const a = client.send(S, "a");
    client.send(S, "b");
    await settle();
    for (const _ of [1, 2, 3]) {
      assert.deepEqual(sent(world), ["a", "b"]);
      await spoil(world);
    }
    assert.deepEqual(sent(world), []);
    await world.answer(POST, 0);
    await world.advance(10_000);
    await world.answer(POST, 422, refusal("VALIDATION_ERROR"));
    assert.equal(client.state.chats[S].messages[0].error.code, "VALIDATION_ERROR");
    await world.answer(POST, 201, message(1, "b", { sender_type: "customer", client_message_id: id("m", 2) }));
    await world.answer(`GET /api/shared/chat/sessions/${S}`, 200, session(1, { last_seq: 1 }));
    assert.equal(client.state.chats[S].messages[0].content, "b");
    await world.advance(8000);
    assert.deepEqual([sent(world), world.requests, stored(world)], [[], [], ["a"]]);
    client.resend(a);
    await settle();
    assert.deepEqual(sent(world), ["a"]);
  });
}

test("a message that the service fails at is repeated five times, then shown as refused", async () => {
  const { world, client } = await chatting();
  const a = client.send(S, "a");
  for (let n = 0; n < 6; n++) {
    await world.advance(1000);
    assert.deepEqual(sent(world), ["a"]);
    await world.serve(error(a, "INTERNAL_ERROR", { retry_after_seconds: 1 }));
  }
  assert.equal(client.state.chats[S].messages[0].error.code, "INTERNAL_ERROR");
  await world.advance(20_000);
  assert.deepEqual(sent(world), []);
});

test("an outage does not end the repeats of a message", async () => {
  const { world, client } = await chatting();
  const a = client.send(S, "a");
  for (let n = 0; n < 20; n++) {
    await world.advance(1000);
    assert.deepEqual(sent(world), ["a"]);
    await world.serve(error(a, "UNAVAILABLE", { retry_after_seconds: 1 }));
  }
  assert.equal(client.state.chats[S].messages[0].state, "sending");
});

test("a message that can never be sent is refused at once, and not stored", async () => {
  const { world, client } = await chatting();
  for (const content of ["", "x".repeat(4001), "bell\u0007", "\u0085", "half \ud83d"]) {
    assert.throws(() => client.send(S, content), { code: "VALIDATION_ERROR", status: 0 });
  }
  assert.equal(client.state.chats[S].messages.length, 0);
  for (const content of ["a\t\r\nb", "\u{1F600}".repeat(4000), "e\u0301".repeat(4000)]) {
    client.send(S, content);
  }
  await settle();
  assert.deepEqual(
    client.state.chats[S].messages.map((message) => message.state),
    ["sending", "sending", "sending"],
  );
  assert.equal(world.socket().take().length > 0, true);
});

test("a message of exactly 16 KiB goes over the socket", async () => {
  const { world, client } = await chatting();
  client.send(S, "x", { mood: "" });
  await settle();
  const [frame] = world.socket().take();
  const room = 16_384 - JSON.stringify(frame).length;
  client.send(S, "x", { mood: "x".repeat(room) });
  await settle();
  assert.equal(JSON.stringify(world.socket().take()[0]).length, 16_384);
  client.send(S, "x", { mood: "x".repeat(room + 1) });
  await settle();
  assert.deepEqual(sent(world), []);
});

test("the messages of another user are neither shown nor sent", async () => {
  const { world, client } = await chatting();
  client.send(S, "a");
  await settle();
  const other = user("customer", { id: id("u", 7) });
  world.stored.set("tokens", JSON.stringify({ access: "B1", refresh: "S1", user: other }));
  await world.client();
  await world.authenticate("/ws/chat", { sessions: [session(1)] });
  assert.deepEqual(sent(world), []);
});

test("an answer to an earlier message does not send a later one before it is stored", async () => {
  const { world, client } = await chatting();
  const a = client.send(S, "a");
  await settle();
  world.written = new Promise(() => {});
  client.send(S, "b");
  await settle();
  await world.serve(ack(a, 1));
  assert.deepEqual(sent(world), ["a"]);
});

test("a new message waits while the service could not store the one before", async () => {
  const { world, client } = await chatting();
  const a = client.send(S, "a");
  await settle();
  world.socket().take();
  await world.serve(error(a, "UNAVAILABLE", { retry_after_seconds: 4 }));
  client.send(S, "b");
  await world.advance(3999);
  assert.deepEqual(sent(world), []);
  await world.advance(1);
  assert.deepEqual(sent(world), ["a", "b"]);
});
