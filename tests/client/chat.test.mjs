/** Transcripts, marks and actions. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { chatting, live, page, READ, reconnect, S, types } from "./chatting.mjs";
import { contents, id, message, session, user, World } from "./world.mjs";

test("sync goes on until more is false, and shows nothing behind a hole", async () => {
  const { world, client } = await chatting({ last_seq: 4 });
  world.socket().take();
  await world.serve(live(message(5, "e")));
  assert.deepEqual(contents(client), []);
  assert.deepEqual(world.socket().take(), []); // a sync is under way
  await world.serve(page([message(1, "a"), message(2, "b")], { more: true }));
  assert.deepEqual(contents(client), ["a", "b"]);
  const [delivered, sync] = world.socket().take();
  assert.deepEqual([delivered.up_to, sync.type, sync.after], [2, "sync", 2]);
  await world.serve(page([message(3, "c"), message(4, "d")]));
  assert.deepEqual(contents(client), ["a", "b", "c", "d", "e"]);
  assert.deepEqual(world.socket().take(), [{ type: "delivered", session_id: S, up_to: 5 }]);
});

test("a hole in live messages is filled by sync", async () => {
  const { world, client } = await chatting();
  await world.serve(live(message(1, "a")));
  await world.serve(live(message(3, "c")));
  assert.deepEqual(contents(client), ["a"]);
  const sync = world.socket().take().at(-1);
  assert.deepEqual([sync.type, sync.after], ["sync", 1]);
  await world.serve(page([message(2, "b")]));
  assert.deepEqual(contents(client), ["a", "b", "c"]);
});

test("a refused sync is repeated after its retry_after_seconds", async () => {
  const { world } = await chatting({ last_seq: 1 });
  const [{ ref }] = world.socket().take();
  await world.serve({ type: "error", ref, code: "TOO_FAST", message: "", retry_after_seconds: 3 });
  await world.advance(2999);
  assert.deepEqual(world.socket().take(), []);
  await world.advance(1);
  assert.deepEqual(types(world.socket().take()), ["sync"]);
});

test("a session without news is not synced after a reconnect, one with news is", async () => {
  const { world, client } = await chatting();
  await world.serve(live(message(1, "a")));
  await reconnect(world, { sessions: [session(1, { last_seq: 1 })] });
  assert.deepEqual(world.socket().take(), []);
  await reconnect(world, { sessions: [session(1, { last_seq: 2 })] });
  const [sync] = world.socket().take();
  assert.deepEqual([sync.type, sync.after], ["sync", 1]);
  await reconnect(world, { sessions: [session(1, { last_seq: 2 })] });
  assert.deepEqual(types(world.socket().take()), ["sync"]); // the older answer will not come
  await world.serve(page([message(2, "b")]));
  assert.deepEqual(contents(client), ["a", "b"]);
});

test("a message whose text was removed replaces the one that the device has", async () => {
  const { world, client } = await chatting();
  await world.serve(live(message(1, "a")));
  const shown = () => client.state.chats[S].messages.map(({ content, blanked }) => [content, blanked]);
  assert.deepEqual(shown(), [["a", false]]);
  await world.serve(page([message(1, "", { blanked: true })]));
  assert.deepEqual(shown(), [["", true]]);
});

test("a message that comes twice is shown once and reported once", async () => {
  const { world, client } = await chatting();
  await world.serve(live(message(1, "a")));
  await world.serve(live(message(1, "a")));
  assert.deepEqual(contents(client), ["a"]);
  assert.deepEqual(types(world.told), ["message"]);
});

test("a session that ended meanwhile is read and synced", async () => {
  const { world, client } = await chatting();
  await reconnect(world, { sessions: [] });
  const [sync] = world.socket().take();
  assert.deepEqual([sync.type, sync.after], ["sync", 0]);
  await world.answer(READ, 200, session(1, { status: "completed", last_seq: 1 }));
  await world.serve(page([message(1, "a")]));
  assert.equal(client.state.chats[S].session.status, "completed");
  assert.deepEqual(contents(client), ["a"]);
  await reconnect(world, { sessions: [] });
  assert.deepEqual([world.socket().take(), world.requests], [[], []]);
});

test("a session of which only a message has come is read", async () => {
  const world = new World();
  const client = await world.client();
  await world.authenticate();
  await world.serve(live(message(1, "a")));
  await world.answer(READ, 200, session(1, { last_seq: 1 }));
  await world.serve(page([message(1, "a")]));
  assert.deepEqual(contents(client), ["a"]);
});

test("marks of the other party raise the states of own messages, and never lower them", async () => {
  const { world, client } = await chatting({ last_seq: 2 });
  const own = (seq, more = {}) => message(seq, "x", { sender_type: "customer", ...more });
  await world.serve(page([own(1), own(2)]));
  const states = () => client.state.chats[S].messages.map((one) => one.state);
  const mark = (status, up_to) => world.serve({ type: "message_status", session_id: S, status, up_to });
  await mark("delivered", 2);
  assert.deepEqual(states(), ["delivered", "delivered"]);
  await mark("read", 1);
  await mark("delivered", 2);
  assert.deepEqual(states(), ["read", "delivered"]);
});

test("a read that may be this user's own is looked up", async () => {
  const { world, client } = await chatting({ last_seq: 2, unread_count: 1 });
  await world.serve(page([message(1, "a", { sender_type: "customer" }), message(2, "b")]));
  await world.serve({ type: "message_status", session_id: S, status: "read", up_to: 2 });
  assert.equal(client.state.chats[S].messages[0].state, "sent");
  const read = message(2, "b", { status: "read" });
  await world.answer(`${READ}/messages?limit=50`, 200, { items: [message(1, "a", { sender_type: "customer" }), read] });
  assert.deepEqual([client.state.chats[S].messages[0].state, client.state.chats[S].unread], ["sent", 0]);
});

test("unread messages are counted until they are marked, once", async () => {
  const { world, client } = await chatting({ last_seq: 2, unread_count: 2 });
  assert.equal(client.state.chats[S].unread, 2);
  await world.serve(page([message(1, "a"), message(2, "b")]));
  world.socket().take();
  client.markRead(S);
  client.markRead(S);
  assert.equal(client.state.chats[S].unread, 0);
  assert.deepEqual(world.socket().take(), [{ type: "read", session_id: S, up_to: 2 }]);
  await world.serve(live(message(3, "c")));
  assert.equal(client.state.chats[S].unread, 1);
});

test("a read mark that was lost with its socket is sent again", async () => {
  const { world, client } = await chatting({ last_seq: 1 });
  await world.serve(page([message(1, "a")]));
  client.markRead(S);
  await reconnect(world, { sessions: [session(1, { last_seq: 1, unread_count: 0 })] });
  assert.deepEqual(world.socket().take(), []);
  await reconnect(world, { sessions: [session(1, { last_seq: 1, unread_count: 1 })] });
  assert.deepEqual(world.socket().take(), [{ type: "read", session_id: S, up_to: 1 }]);
});

test("typing is shown for 5 s or until the message comes", async () => {
  const { world, client } = await chatting();
  const typing = (is_typing) => world.serve({ type: "typing", session_id: S, is_typing });
  const until = () => client.state.chats[S].typingUntil;
  await typing(true);
  assert.equal(until(), client.now() + 5000);
  await world.advance(4000);
  await typing(true);
  await world.advance(4999);
  assert.notEqual(until(), null);
  await world.advance(1);
  assert.equal(until(), null);
  await typing(true);
  await typing(false);
  assert.equal(until(), null);
  await typing(true);
  await world.serve(live(message(1, "a")));
  assert.equal(until(), null);
});

test("typing is sent once in 3 s", async () => {
  const { world, client } = await chatting();
  client.typing(S);
  client.typing(S);
  await world.advance(3000);
  client.typing(S);
  assert.deepEqual(world.socket().take(), Array(2).fill({ type: "typing", session_id: S, is_typing: true }));
});

test("an ended chat is opened at its end and read backwards", async () => {
  const world = new World();
  const client = await world.client();
  const opened = client.openChat(S);
  await world.answer(READ, 200, session(1, { status: "completed", last_seq: 4 }));
  await world.answer(`${READ}/messages?limit=50`, 200, { items: [message(3, "c"), message(4, "d")] });
  await opened;
  assert.deepEqual([contents(client), client.state.chats[S].hasEarlier], [["c", "d"], true]);
  const earlier = client.loadEarlier(S);
  await world.answer(`${READ}/messages?before=3&limit=50`, 200, { items: [message(1, "a"), message(2, "b")] });
  await earlier;
  assert.deepEqual([contents(client), client.state.chats[S].hasEarlier], [["a", "b", "c", "d"], false]);
  await client.loadEarlier(S);
  await client.openChat(S);
  assert.deepEqual(world.requests, []);
});

test("the actions of a chat change its session", async () => {
  const { world, client } = await chatting({}, "mitra");
  const topic = client.setTopic(S, "sensitive");
  const { body } = await world.answer(
    `${READ.replace("GET", "PATCH")}/topic`,
    200,
    session(1, { topic_sensitivity: "sensitive" }),
  );
  assert.deepEqual(body, { topic_sensitivity: "sensitive" });
  await topic;
  assert.equal(client.state.chats[S].session.topic_sensitivity, "sensitive");
  const end = client.end(S);
  await world.answer(`${READ.replace("GET", "POST")}/end`, 200, session(1, { status: "closing" }));
  await end;
  const goodbye = client.sayGoodbye(S, "Dah");
  const refused = { error: { code: "CLOSURE_EXISTS", message: "" } };
  await world.answer(`${READ.replace("GET", "POST")}/closure`, 409, refused);
  await assert.rejects(goodbye, { code: "CLOSURE_EXISTS" });
  await world.answer(READ, 200, session(1, { status: "completed" }));
  assert.equal(client.state.chats[S].session.status, "completed");
  const answer = client.answerExtension(S, id("x", 1), true);
  const route = `${READ.replace("GET", "POST")}/extensions/${id("x", 1)}/answer`;
  await world.answer(route, 200, { id: id("x", 1), session_id: S, status: "approved" });
  assert.equal((await answer).status, "approved");
  assert.equal(client.state.chats[S].extension.status, "approved");
});

test("the state is frozen, new after each change, and reported once a microtask", async () => {
  const world = new World();
  const client = world.newClient();
  let calls = 0;
  const { subscribe } = client; // as frameworks take it
  subscribe(() => calls++);
  const before = client.state;
  assert.throws(() => {
    before.user = user("customer");
  }, TypeError);
  const signIn = client.signInAnonymously();
  await world.answer("POST /api/shared/auth/anonymous", 201, {
    access_token: "A",
    refresh_token: "R",
    customer: user("customer"),
  });
  await signIn;
  assert.notEqual(client.state, before);
  assert.ok(calls >= 1 && calls <= 3, `${calls} calls`);
});

test("a hole that a page leaves is asked for again, but not without end", async () => {
  const { world, client } = await chatting({ last_seq: 1 });
  world.socket().take();
  await world.serve(live(message(3, "c")));
  await world.serve(page([message(1, "a")]));
  const sync = world.socket().take().at(-1);
  assert.deepEqual([sync.type, sync.after], ["sync", 1]);
  await world.serve(page([]));
  assert.deepEqual(world.socket().take(), []);
  await world.serve(live(message(2, "b")));
  assert.deepEqual(contents(client), ["a", "b", "c"]);
});

test("an older copy of a message does not lower its state", async () => {
  const { world, client } = await chatting({ last_seq: 1 });
  const own = message(1, "a", { sender_type: "customer" });
  await world.serve(page([own]));
  await world.serve({ type: "message_status", session_id: S, status: "read", up_to: 1 });
  await world.serve(page([own]));
  assert.equal(client.state.chats[S].messages[0].state, "read");
});
