/** What is stored, and what happens when that fails. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { browserStorage, createClient } from "../../api/web/client/index.js";
import { id, session, settle, tokens, user, World } from "./world.mjs";

test("a storage that fails ends in memory, and the state says so", async () => {
  const world = new World();
  const client = await world.client();
  await world.authenticate("/ws/chat", { sessions: [session(1)] });
  assert.equal(client.state.saved, true);
  world.storageFails = true;
  client.send(id("s", 1), "a");
  await settle();
  assert.equal(client.state.saved, false);
  assert.equal(world.socket().take()[0].content, "a");
  const call = client.call("GET /api/client/auth/me");
  await world.answer("GET /api/client/auth/me", 401, { error: { code: "UNAUTHENTICATED", message: "" } });
  await world.answer("POST /api/shared/auth/refresh", 200, tokens(2));
  await world.answer("GET /api/client/auth/me", 200, user("customer"));
  await call;
  assert.deepEqual(await client.state.user, user("customer"));
});

test("a platform without storage keeps the sign-in in memory", async () => {
  const world = new World();
  const client = createClient({
    role: "customer",
    api: "http://api.test",
    sockets: "ws://sockets.test",
    ports: world.ports,
  });
  await client.start();
  const signIn = client.signInAnonymously();
  await world.answer("POST /api/shared/auth/anonymous", 201, tokens(1));
  await signIn;
  assert.equal(client.state.saved, false);
  assert.equal(await world.authenticate(), "A1");
});

/** A fake of the part of IndexedDB that is used; `closed` lets the next access fail once, as Safari does. */
class FakeIndexedDb {
  values = new Map();
  opened = 0;
  closed = false;

  open() {
    this.opened++;
    const opening = {};
    queueMicrotask(() => {
      opening.result = { createObjectStore: () => {}, transaction: () => this.#transaction() };
      opening.onsuccess();
    });
    return opening;
  }

  #transaction() {
    if (this.closed) {
      this.closed = false;
      throw new Error("the database connection is closing");
    }
    const transaction = {};
    queueMicrotask(() => queueMicrotask(() => transaction.oncomplete()));
    const request = (result) => ({ result });
    transaction.objectStore = () => ({
      get: (key) => request(this.values.get(key)),
      put: (value, key) => request(this.values.set(key, value) && key),
      delete: (key) => request(this.values.delete(key) && undefined),
    });
    return transaction;
  }
}

test("IndexedDB that was closed in the background is opened again", async (context) => {
  const fake = new FakeIndexedDb();
  globalThis.indexedDB = fake;
  context.after(() => delete globalThis.indexedDB);
  const storage = browserStorage("sesi:customer:main:");
  await storage.set("tokens", "1");
  fake.closed = true;
  assert.equal(await storage.get("tokens"), "1");
  assert.equal(fake.opened, 2);
  assert.deepEqual([...fake.values.keys()], ["sesi:customer:main:tokens"]);
  assert.equal(await storage.get("other"), null);
  await storage.remove("tokens");
  assert.equal(await storage.get("tokens"), null);
});
