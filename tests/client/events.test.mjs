/** Events of sessions, and a service whose database was replaced. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { chatting, live, page, reconnect, S, types } from "./chatting.mjs";
import { contents, id, message, session, settle } from "./world.mjs";

const event = (number, more) => ({ event_id: id("e", number), ...more });

test("an event is acknowledged each time, and reported once", async () => {
  const { world } = await chatting();
  const warning = event(1, { type: "session_warning", session_id: S, expires_at: session().expires_at });
  await world.serve(warning);
  await world.serve(warning);
  const acks = world
    .socket()
    .take()
    .map((frame) => [frame.type, frame.event_id]);
  assert.deepEqual(acks, Array(2).fill(["ack", id("e", 1)]));
  assert.deepEqual(types(world.told), ["session_warning"]);
});

test("a refused acknowledgement is sent again", async () => {
  const { world } = await chatting();
  await world.serve(event(1, { type: "session_warning", session_id: S, expires_at: "" }));
  const [ack] = world.socket().take();
  await world.serve({ type: "error", ref: ack.ref, code: "UNAVAILABLE", message: "", retry_after_seconds: 2 });
  await world.advance(2000);
  assert.deepEqual(world.socket().take(), [ack]);
});

test("a hidden app acknowledges without showing, and again when the user is back", async () => {
  const { world } = await chatting();
  world.hidden = true;
  const renamed = { type: "peer_renamed", session_id: S, display_name: "Ayu" };
  await world.serve(event(1, renamed));
  await world.serve({ type: "message", message: message(1, "a") });
  await world.serve({ type: "message", message: message(2, "b") });
  await world.serve(event(2, { type: "account_updated" }), "/ws/pairing");
  const ack = (number) => ({ type: "ack", ref: `ack:${id("e", number)}`, event_id: id("e", number) });
  const delivered = (up_to) => ({ type: "delivered", session_id: S, up_to });
  const unshown = [ack(1), delivered(1), delivered(2)].map((frame) => ({ ...frame, shown: false }));
  assert.deepEqual(world.socket().take(), unshown);
  assert.deepEqual(world.socket("/ws/pairing").take(), [{ ...ack(2), shown: false }]);
  world.hidden = false;
  await world.wake("visible");
  assert.deepEqual(world.socket().take(), [{ type: "ping" }, ack(1), delivered(2), ack(2)]);
  await world.serve(event(3, renamed));
  await world.wake("visible");
  assert.deepEqual(world.socket().take(), [ack(3), { type: "ping" }]);
});

test("what a hidden app got is acknowledged on the next socket if the user is back without one", async () => {
  const { world } = await chatting();
  world.hidden = true;
  await world.serve({ type: "message", message: message(1, "a") });
  await world.close(1006);
  world.hidden = false;
  await world.wake("visible");
  await world.advance(1000);
  await world.authenticate("/ws/chat", { sessions: [session(1, { last_seq: 1 })] });
  assert.deepEqual(world.socket().take(), [{ type: "delivered", session_id: S, up_to: 1 }]);
});

test("an event that is older than the session's newest is only acknowledged", async () => {
  const { world, client } = await chatting();
  await world.serve(event(5, { type: "session_closing", session: session(1, { status: "closing" }) }));
  await world.serve(event(3, { type: "session_closing", session: session(1, { status: "closing", ended_by: "x" }) }));
  assert.equal(client.state.chats[S].session.ended_by, undefined);
  assert.equal(world.told.length, 1);
  assert.deepEqual(types(world.socket().take()), ["ack", "ack"]);
});

test("an old event that was never acknowledged does not turn a session back", async () => {
  const { world, client } = await chatting({ expires_at: "2026-11-21T06:54:00Z" });
  await world.serve(event(1, { type: "session_expired", session: session(1, { status: "expired" }) }));
  assert.equal(client.state.chats[S].session.status, "active");
});

test("an extension makes an expired session active again", async () => {
  const { world, client } = await chatting();
  await world.serve(event(1, { type: "session_expired", session: session(1, { status: "expired" }) }));
  assert.equal(client.state.chats[S].session.status, "expired");
  const extension = { id: id("x", 1), session_id: S, status: "approved" };
  await world.serve(event(2, { type: "extension_resolved", extension }));
  const later = session(1, { expires_at: "2026-11-21T06:54:00Z" });
  await world.serve(event(3, { type: "session_resumed", session: later, extension_id: extension.id }));
  await world.serve(event(4, { type: "extension_requested", extension: { ...extension, id: id("x", 2) } }));
  await world.serve(event(2, { type: "extension_requested", extension: { ...extension, status: "pending" } }));
  const chat = client.state.chats[S];
  assert.deepEqual([chat.session.status, chat.session.expires_at], ["active", later.expires_at]);
  assert.equal(chat.extension.id, id("x", 2));
});

test("time that is given back moves the end, makes the session active again, and is shown", async () => {
  const { world, client } = await chatting();
  await world.serve(event(1, { type: "session_warning", session_id: S, expires_at: session().expires_at }));
  await world.serve(event(2, { type: "session_expired", session: session(1, { status: "expired" }) }));
  assert.equal(client.state.chats[S].credit, null);
  const later = session(1, { expires_at: "2026-11-21T06:54:00Z" });
  const adjusted = { type: "session_clock_adjusted", session: later, added_seconds: 90, reason: "realtime" };
  await world.serve(event(3, adjusted));
  await world.serve(event(3, adjusted));
  const { session: shown, credit, warned } = client.state.chats[S];
  assert.deepEqual([shown.status, shown.expires_at, warned], ["active", later.expires_at, false]);
  assert.deepEqual(credit, { addedSeconds: 90, reason: "realtime" });
  assert.deepEqual(
    types(world.told).filter((type) => type === adjusted.type),
    [adjusted.type],
  );
});

test("the warning holds until the session has more time", async () => {
  const { world, client } = await chatting();
  await world.serve(event(1, { type: "session_warning", session_id: S, expires_at: session().expires_at }));
  assert.equal(client.state.chats[S].warned, true);
  const later = session(1, { expires_at: "2026-11-21T06:54:00Z" });
  await world.serve(event(2, { type: "session_resumed", session: later, extension_id: id("x", 1) }));
  assert.equal(client.state.chats[S].warned, false);
});

test("a new name of the other party is shown, whatever is known of their absence", async () => {
  for (const [role, party] of [
    ["customer", "mitra"],
    ["mitra", "customer"],
  ]) {
    const people = {
      mitra: { id: id("m", 1), display_name: "Ayu" },
      customer: { id: id("c", 1), display_name: "Dewi" },
    };
    const { world, client } = await chatting(people, role);
    const name = () => client.state.chats[S].session[party].display_name;
    await world.serve(event(2, { type: "peer_renamed", session_id: S, display_name: "Sari" }));
    await world.serve(event(1, { type: "peer_renamed", session_id: S, display_name: "Rina" }));
    assert.equal(name(), "Sari");
    await world.serve(event(5, { type: "peer_renamed", session_id: id("s", 9), display_name: "Eka" }));
    assert.equal(client.state.chats[S].session[role].display_name, people[role].display_name);
    await world.serve(event(4, { type: "peer_renamed", session_id: S, display_name: "Tari" }));
    const since = "2026-11-21T06:25:00Z";
    await world.serve(event(3, { type: "peer_absent", session_id: S, user_type: party, since }));
    assert.deepEqual([name(), client.state.chats[S].peer.absent], ["Tari", since]);
  }
});

test("the other party is away from peer_absent until peer_returned", async () => {
  const { world, client } = await chatting();
  assert.deepEqual(client.state.chats[S].peer, { absent: null });
  const since = "2026-11-21T06:30:00.000000Z";
  await world.serve(event(2, { type: "peer_absent", session_id: S, user_type: "mitra", since }));
  assert.deepEqual(client.state.chats[S].peer, { absent: since });
  await world.serve(event(3, { type: "peer_returned", session_id: S, user_type: "mitra" }));
  await world.serve(event(1, { type: "peer_absent", session_id: S, user_type: "mitra", since }));
  assert.deepEqual(client.state.chats[S].peer, { absent: null });
});

test("the snapshot says whether the other party is away, and a session that closes does not", async () => {
  const since = "2026-11-21T06:30:00.000000Z";
  const { world, client } = await chatting({ peer_absent_since: since });
  assert.deepEqual(client.state.chats[S].peer, { absent: since });
  await reconnect(world, { sessions: [session(1, { peer_absent_since: null })] });
  assert.deepEqual(client.state.chats[S].peer, { absent: null });
  await world.serve(event(2, { type: "peer_absent", session_id: S, user_type: "mitra", since }));
  await world.serve(event(3, { type: "session_expired", session: session(1, { status: "expired" }) }));
  assert.deepEqual(client.state.chats[S].peer, { absent: since });
  await world.serve(event(4, { type: "session_closing", session: session(1, { status: "closing" }) }));
  assert.deepEqual(client.state.chats[S].peer, { absent: null });
});

test("the topic changes with its event", async () => {
  const { world, client } = await chatting();
  const change = { type: "session_topic_updated", session_id: S, topic_sensitivity: "sensitive" };
  await world.serve(event(2, change));
  await world.serve(event(1, { ...change, topic_sensitivity: "regular" }));
  assert.equal(client.state.chats[S].session.topic_sensitivity, "sensitive");
});

test("another epoch: chats are read again, lost messages go, own lost ones are sent again", async () => {
  const { world, client } = await chatting({ last_seq: 2 });
  await world.serve(page([message(1, "a"), message(2, "b")]));
  const sent = client.send(S, "lost");
  await settle();
  await world.serve({ type: "message_ack", client_message_id: sent, id: id("f", 3), seq: 3, created_at: "" });
  await world.serve(live(message(4, "lost, too")));
  await reconnect(world, { epoch: "e2", sessions: [session(1, { last_seq: 2 })] });
  assert.deepEqual(world.socket().take(), []);
  await world.advance(4999);
  assert.deepEqual(world.socket().take(), []);
  await world.advance(1);
  const [first] = world.socket().take();
  assert.deepEqual([first.type, first.after], ["sync", 0]);
  await world.serve(page([message(1, "a")], { more: true, epoch: "e2" }));
  assert.equal(
    world
      .socket()
      .take()
      .find((frame) => frame.type === "sync").after,
    1,
  );
  await world.serve(page([message(2, "b")], { epoch: "e2" }));
  assert.deepEqual(contents(client), ["a", "b", "lost"]);
  const again = world
    .socket()
    .take()
    .find((frame) => frame.type === "send_message");
  assert.equal(again.client_message_id, sent);
  await world.serve({ type: "message_ack", client_message_id: sent, id: id("f", 9), seq: 3, created_at: "" });
  assert.equal(client.state.chats[S].messages[2].id, id("f", 9));
});

test("after another epoch an older view of a session counts, and so do smaller event ids", async () => {
  const { world, client } = await chatting();
  await world.serve(event(5, { type: "session_closing", session: session(1, { status: "closing" }) }));
  await reconnect(world, { epoch: "e2", sessions: [session(1)] });
  assert.equal(client.state.chats[S].session.status, "active");
  await world.serve(event(2, { type: "session_expired", session: session(1, { status: "expired" }) }));
  assert.equal(client.state.chats[S].session.status, "expired");
});

test("a reading after another epoch goes on over the next socket", async () => {
  const { world, client } = await chatting({ last_seq: 1 });
  await world.serve(page([message(1, "a")]));
  await reconnect(world, { epoch: "e2", sessions: [session(1, { last_seq: 1 })] });
  await world.advance(5000);
  await reconnect(world, { epoch: "e2", sessions: [session(1, { last_seq: 1 })] });
  const [sync] = world.socket().take();
  assert.deepEqual([sync.type, sync.after], ["sync", 0]);
  await world.serve(page([message(1, "z")], { epoch: "e2" }));
  assert.deepEqual(contents(client), ["z"]);
});
