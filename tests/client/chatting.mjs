/** A world with one running session, for the tests of chats and of events. */

import { id, session, World } from "./world.mjs";

export const S = id("s", 1);
export const READ = `GET /api/shared/chat/sessions/${S}`;
export const page = (messages, more = {}) => ({
  type: "sync",
  session_id: S,
  messages,
  more: false,
  epoch: "e1",
  ...more,
});
export const live = (one) => ({ type: "message", event_id: id("e", one.seq), message: one });
export const types = (frames) => frames.map((frame) => frame.type);

/** Return a world with one running session. */
export async function chatting(more = {}, role = "customer") {
  const world = new World();
  const client = await world.client(role);
  await world.authenticate("/ws/pairing");
  if (role === "mitra") world.requests.length = 0;
  await world.authenticate("/ws/chat", { sessions: [session(1, more)] });
  return { world, client };
}

/** Drop the chat socket and authenticate the next one. */
export async function reconnect(world, snapshot) {
  await world.close(1006);
  await world.wake("online");
  await world.authenticate("/ws/chat", snapshot);
}
