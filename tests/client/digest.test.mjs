/** The digest of a transcript, and receipts. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { browserPorts } from "../../api/web/client/browser.js";
import { digestOf } from "../../api/web/client/digest.js";
import { verifyReceipt } from "../../api/web/client/index.js";
import { Transcript } from "../../api/web/client/transcript.js";
import { chatting, live, page, S } from "./chatting.mjs";
import { contents, message } from "./world.mjs";

const VECTORS = JSON.parse(readFileSync(new URL("../vectors/digests/digests.json", import.meta.url), "utf8"));
const { sha256 } = browserPorts;

/** Wait until Web Crypto, which has real time, has made `look` true. */
async function until(look) {
  for (let tries = 0; !look(); tries++) {
    assert.ok(tries < 1000, "it never happened");
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

function transcriptOf(messages) {
  const transcript = new Transcript("customer");
  transcript.add(messages);
  return transcript;
}

for (const { name, messages, digests } of VECTORS)
  test(`the digest of ${name} is the one of the vector, in any order of questions`, async () => {
    const transcript = transcriptOf(messages);
    const asked = [...messages.keys(), 0, ...[...messages.keys()].reverse()];
    const found = await Promise.all(asked.map((seq) => digestOf(transcript, seq, sha256)));
    assert.deepEqual(
      found,
      asked.map((seq) => digests[seq - 1] ?? "00".repeat(32)),
    );
  });

test("a transcript without its beginning, with a removed text or a hole has no digest", async () => {
  const [, two] = VECTORS[2].messages;
  const late = new Transcript("customer");
  late.beginWith([two]);
  assert.equal(await digestOf(late, 2, sha256), null);
  assert.equal(await digestOf(transcriptOf([two]), 2, sha256), null);
  const removed = transcriptOf([message(1, "a"), { ...message(2, ""), blanked: true }, message(3, "c")]);
  assert.equal(await digestOf(removed, 3, sha256), null);
  assert.notEqual(await digestOf(removed, 1, sha256), null);
});

/** Return the `sync` frames that were sent and not taken. */
const syncs = (world) => {
  const { sent, read } = world.socket();
  return sent.slice(read).filter(({ type }) => type === "sync");
};
const digestAfter = (...messages) => digestOf(transcriptOf(messages), messages.length, sha256);

test("an equal digest is shown, also for a page without messages", async () => {
  const { world, client } = await chatting({ last_seq: 2 });
  const all = [message(1, "a"), message(2, "b")];
  assert.equal(client.state.chats[S].digest, "unchecked");
  await world.serve(page(all, { digest: await digestAfter(...all) }));
  await until(() => client.state.chats[S].digest === "equal");
});

test("a different digest makes the client read everything again once, then it is reported", async () => {
  const { world, client } = await chatting({ last_seq: 2 });
  const events = [];
  client.on((frame) => events.push(frame));
  const [wrong, right] = [
    [message(1, "a"), message(2, "changed")],
    [message(1, "a"), message(2, "b")],
  ];
  const digest = await digestAfter(...right);
  world.socket().take();
  await world.serve(page(wrong, { digest }));
  const again = () => syncs(world);
  await until(() => again().length);
  assert.deepEqual([again()[0].after, client.state.chats[S].digest], [0, "unchecked"]);
  await world.serve(page(right, { digest }));
  await until(() => client.state.chats[S].digest === "equal");
  assert.deepEqual(contents(client), ["a", "b"]);
  assert.deepEqual(events, []);
});

test("an answer that was on its way when the reread began does not end it", async () => {
  const { world, client } = await chatting({ last_seq: 2 });
  const [wrong, right] = [
    [message(1, "a"), message(2, "changed")],
    [message(1, "a"), message(2, "b")],
  ];
  const digest = await digestAfter(...right);
  world.socket().take();
  await world.serve(page(wrong, { digest }));
  await world.serve(live(message(4, "d"))); // a hole: the library asks for more before it has compared
  assert.deepEqual(
    syncs(world).map(({ after }) => after),
    [2],
  );
  await new Promise((resolve) => setTimeout(resolve, 50)); // Web Crypto has its answer, and the reread has begun
  world.socket().take();
  await world.serve(page([], { digest }));
  assert.deepEqual(contents(client), ["a", "changed"]);
  assert.deepEqual(
    syncs(world).map(({ after }) => after),
    [0],
  );
  world.socket().take();
  const all = [...right, message(3, "c"), message(4, "d")];
  await world.serve(page(all, { digest: await digestAfter(...all) }));
  await until(() => client.state.chats[S].digest === "equal");
  assert.deepEqual(contents(client), ["a", "b", "c", "d"]);
  assert.deepEqual(
    world
      .socket()
      .sent.slice(world.socket().read)
      .filter(({ type }) => type === "message"),
    [],
  );
});

test("a reread that ends without a digest is not the end: the next difference is read again, too", async () => {
  const { world, client } = await chatting({ last_seq: 1 });
  const events = [];
  client.on((frame) => events.push(frame));
  world.socket().take();
  const digest = "ab".repeat(32);
  await world.serve(page([message(1, "a")], { digest }));
  await until(() => syncs(world).length);
  world.socket().take();
  await world.serve(page([message(1, "a")], { digest: null }));
  assert.equal(client.state.chats[S].digest, "unchecked");
  await world.serve(page([], { digest }));
  await until(() => syncs(world).length);
  assert.deepEqual([syncs(world)[0].after, events], [0, []]);
});

test("a digest that stays different is reported with both values", async () => {
  const { world, client } = await chatting({ last_seq: 1 });
  const events = [];
  client.on((frame) => events.push(frame));
  world.socket().take();
  const expected = "ab".repeat(32);
  await world.serve(page([message(1, "a")], { digest: expected }));
  await until(() => syncs(world).length);
  world.socket().take();
  await world.serve(page([message(1, "a")], { digest: expected }));
  await until(() => client.state.chats[S].digest === "different");
  const found = await digestAfter(message(1, "a"));
  assert.deepEqual(events, [{ type: "digest_mismatch", session_id: S, seq: 1, expected, found }]);
  assert.deepEqual(syncs(world), []);
  await world.serve(live(message(2, "b")));
  assert.deepEqual(contents(client), ["a", "b"]);
});

test("no digest, and no SHA-256 on this platform, change nothing", async () => {
  const { world, client } = await chatting({ last_seq: 1 });
  await world.serve(page([message(1, "a")], { digest: null, blanked: true }));
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(client.state.chats[S].digest, "unchecked");
});

const RECEIPT = {
  session_id: "019aa4b6-5f00-7000-8000-000000005001",
  seconds_paid: 720,
  seconds_both_could_talk: 711,
  seconds_credited: 9,
  messages: 4,
  digest: null,
  completed_at: "2026-11-21T06:48:00.250000Z",
};

test("a receipt of the service is verified, and a changed one is not", async () => {
  const { signed, keys } = JSON.parse(
    readFileSync(new URL("../vectors/digests/receipt.json", import.meta.url), "utf8"),
  );
  assert.deepEqual(signed.receipt, RECEIPT);
  assert.equal(await verifyReceipt(signed, keys), true);
  const reversed = Object.fromEntries(Object.entries(signed.receipt).reverse());
  assert.equal(await verifyReceipt({ ...signed, receipt: reversed }, keys), true);
  for (const receipt of [
    { ...signed.receipt, seconds_paid: 60 },
    { ...signed.receipt, more: 1 },
  ])
    assert.equal(await verifyReceipt({ ...signed, receipt }, keys), false);
  assert.equal(await verifyReceipt({ ...signed, key_id: "other" }, keys), false);
  for (const signature of ["", "a", "?", signed.signature.slice(2), `${signed.signature}AA`])
    assert.equal(await verifyReceipt({ ...signed, signature }, keys), false);
  assert.equal(await verifyReceipt(signed, { keys: [{ ...keys.keys[0], x: "AAAA" }] }), null);
});
