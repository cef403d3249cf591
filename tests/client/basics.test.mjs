/** The shortest conversations: connect, receive, send, reconnect. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { contents, id, message, session, settle, World } from "./world.mjs";

test("a message of the other party is shown and marked as delivered", async () => {
  const world = new World();
  const client = await world.client();
  await world.authenticate("/ws/chat", { sessions: [session(1, { last_seq: 1 })] });
  const [sync] = world.socket().take();
  assert.deepEqual([sync.type, sync.after], ["sync", 0]);
  await world.serve({
    type: "sync",
    session_id: id("s", 1),
    messages: [message(1, "Halo Ani")],
    more: false,
    epoch: "e1",
  });
  assert.deepEqual(contents(client), ["Halo Ani"]);
  assert.deepEqual(world.socket().take(), [{ type: "delivered", session_id: id("s", 1), up_to: 1 }]);
});

test("a message is shown at once, and sent until it is acknowledged", async () => {
  const world = new World();
  const client = await world.client();
  await world.authenticate("/ws/chat", { sessions: [session(1)] });
  const sent = client.send(id("s", 1), "Halo");
  assert.equal(client.state.chats[id("s", 1)].messages[0].state, "sending");
  await settle();
  const [frame] = world.socket().take();
  assert.deepEqual(frame, {
    type: "send_message",
    ref: sent,
    session_id: id("s", 1),
    client_message_id: sent,
    content: "Halo",
  });
  await world.advance(2000);
  assert.deepEqual(world.socket().take(), [frame]);
  await world.serve({
    type: "message_ack",
    ref: sent,
    client_message_id: sent,
    id: id("f", 1),
    seq: 1,
    created_at: "",
  });
  assert.equal(client.state.chats[id("s", 1)].messages[0].state, "sent");
  await world.advance(5000);
  assert.deepEqual(world.socket().take(), []);
});

test("an app that was opened by a push reports the event", async () => {
  const world = new World();
  const client = await world.client();
  const reported = client.pushOpened(id("e", 1));
  const { body } = await world.answer("POST /api/shared/push-opened", 204, null);
  assert.deepEqual(body, { event_id: id("e", 1) });
  assert.equal(await reported, undefined);
});
