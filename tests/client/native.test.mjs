/** The entry for React Native: its ports, its storage and its hook, on modules of React Native that are simulated. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { test } from "node:test";
import { id, message, session, settle, tokens, user, World } from "./world.mjs";

const VECTORS = JSON.parse(readFileSync(new URL("../vectors/digests/digests.json", import.meta.url), "utf8"));

// What a phone's system and React do here.
const system = { currentState: "active", appListeners: new Set(), networkListeners: new Set(), renders: [] };
globalThis.system = system;
const MODULES = {
  react: "export const useSyncExternalStore = (...args) => (globalThis.system.renders.push(args), args[1]());",
  "react-native": `export const AppState = {
    get currentState() { return globalThis.system.currentState; },
    addEventListener(name, listener) {
      if (name !== "change") throw new Error(name);
      globalThis.system.appListeners.add(listener);
      return { remove: () => globalThis.system.appListeners.delete(listener) };
    },
  };`,
};
registerHooks({
  resolve: (name, context, next) =>
    name in MODULES
      ? { url: `data:text/javascript,${encodeURIComponent(MODULES[name])}`, shortCircuit: true }
      : next(name, context),
});
const { createClient, useSesi } = await import("../../api/web/client/react_native.js");

const addListener = (listeners) => (listener) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

/** Return a world whose client is made as in a phone's app, apart from the network and the time. */
function phone({ secret = new Map(), plain = new Map(), ...more } = {}) {
  const world = new World();
  const { open, fetch, time } = world.ports;
  const access = (values) => [
    async (key) => values.get(key) ?? null,
    async (key, value) => void values.set(key, value),
    async (key) => void values.delete(key),
  ];
  const [getItemAsync, keep, deleteItemAsync] = access(secret);
  const setItemAsync = (key, value, { keychainAccessible }) => {
    assert.equal(keychainAccessible, 4);
    return keep(key, value);
  };
  const [getItem, setItem, removeItem] = access(plain);
  const client = createClient({
    role: "customer",
    api: "http://api.test",
    sockets: "ws://sockets.test",
    ports: { open, fetch, time },
    native: {
      Crypto: { getRandomValues: (bytes) => bytes.fill(7), ...more },
      SecureStore: { getItemAsync, setItemAsync, deleteItemAsync, AFTER_FIRST_UNLOCK: 4 },
      AsyncStorage: { getItem, setItem, removeItem },
      NetInfo: { addEventListener: addListener(system.networkListeners) },
    },
  });
  return { world, client, secret, plain };
}

/** Return such a world with a running session. */
async function chatting(more) {
  const signedIn = JSON.stringify({ access: "A1", refresh: "R1", user: user("customer") });
  const made = phone({ secret: new Map([["sesi.customer.tokens", signedIn]]), ...more });
  await made.client.start();
  await made.world.authenticate("/ws/pairing");
  await made.world.authenticate("/ws/chat", { sessions: [session(1)] });
  return made;
}

const change = async (state) => {
  system.currentState = state;
  for (const listener of system.appListeners) listener(state);
  await settle();
};
const connect = async (type, isConnected) => {
  for (const listener of system.networkListeners) listener({ type, isConnected });
  await settle();
};

test("tokens are in the secure store, unsent messages in AsyncStorage, and a sign-out deletes both", async () => {
  const { world, client, secret, plain } = phone();
  await client.start();
  const signIn = client.signInAnonymously();
  await world.answer("POST /api/shared/auth/anonymous", 201, tokens(1));
  await signIn;
  client.send(id("s", 1), "a");
  await settle();
  assert.deepEqual([...secret.keys()], ["sesi.customer.tokens"]);
  const outbox = `sesi:customer:${user("customer").id}:outbox`;
  assert.deepEqual([...plain.keys()], [outbox]);
  assert.equal(JSON.parse(plain.get(outbox))[0].id, "77777777-7777-4777-8777-777777777777");
  const signOut = client.signOut();
  await world.answer("POST /api/shared/auth/logout", 204);
  await signOut;
  assert.deepEqual([secret.size, plain.size, client.state.saved], [0, 0, true]);
  await client.stop();
});

test("an app in the background says so, and asks its sockets when it returns", async () => {
  const { world, client } = await chatting();
  const delivered = (up_to) => ({ type: "delivered", session_id: id("s", 1), up_to });
  await change("inactive"); // iOS, below a call
  await world.serve({ type: "message", message: message(1, "a") });
  assert.deepEqual(world.socket().take(), [delivered(1)]);
  await change("background");
  await world.serve({ type: "message", message: message(2, "b") });
  assert.deepEqual(world.socket().take(), [{ ...delivered(2), shown: false }]);
  await change("active");
  assert.deepEqual(world.socket().take(), [{ type: "ping" }, delivered(2)]);
  await client.stop();
  assert.deepEqual([system.appListeners.size, system.networkListeners.size], [0, 0]);
});

test("a network that is back or another one is used at once, and the first report is no change", async () => {
  const { world, client } = await chatting();
  await connect("wifi", true);
  assert.deepEqual(world.socket().take(), []);
  await connect("cellular", true);
  assert.deepEqual(world.socket().take(), [{ type: "ping" }]);
  await world.close(1006);
  await connect("none", false);
  assert.equal(world.opened(), 1);
  await connect("cellular", true);
  assert.equal(world.opened(), 2);
  await client.stop();
});

test("digests are compared with the digest of the platform, and not at all without one", async () => {
  const [{ messages, digests }] = VECTORS.filter((one) => one.messages.length === 1);
  const sha256 = async (name, bytes) => {
    assert.equal(name, "SHA-256");
    return new Uint8Array(createHash("sha256").update(bytes).digest()).buffer;
  };
  for (const [crypto, digest] of [
    [{ digest: sha256 }, "equal"],
    [{}, "unchecked"],
  ]) {
    const { world, client } = await chatting(crypto);
    const one = message(1, messages[0].content, { id: messages[0].id });
    const page = {
      type: "sync",
      session_id: id("s", 1),
      messages: [one],
      more: false,
      epoch: "e1",
      digest: digests[0],
    };
    await world.serve({ type: "message", message: message(2, "b") }); // there is a hole: the library asks
    await world.serve(page);
    assert.equal(client.state.chats[id("s", 1)].digest, digest);
    await client.stop();
  }
});

test("the hook subscribes to the client and returns a part of its state", async () => {
  const { client } = await chatting();
  assert.equal(
    useSesi(client, (state) => state.connection),
    "open",
  );
  assert.equal(useSesi(client), client.state);
  const [[subscribe, look]] = system.renders;
  let renders = 0;
  const stop = subscribe(() => renders++);
  await client.stop();
  await settle();
  stop();
  assert.deepEqual([renders, look()], [1, "stopped"]);
});
