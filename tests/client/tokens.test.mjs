/** One refresh for all calls and sockets; only a refused refresh token signs out. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { refusal, settle, tokens, user, World } from "./world.mjs";

const ME = "GET /api/client/auth/me";
const REFRESH = "POST /api/shared/auth/refresh";
const ASK = "POST /api/client/auth/otp/request";
const VERIFY = "POST /api/client/auth/otp/verify";
const expired = refusal("UNAUTHENTICATED");

test("two calls with an expired token cause one refresh, and are sent once more", async () => {
  const world = new World();
  const client = await world.client();
  const calls = [client.call(ME), client.call(ME)];
  await world.answer(ME, 401, expired);
  await world.answer(ME, 401, expired);
  const refresh = await world.answer(REFRESH, 200, tokens(2));
  assert.deepEqual(refresh.body, { refresh_token: "R1" });
  for (const _ of calls) {
    const again = await world.answer(ME, 200, user("customer"));
    assert.equal(again.headers.Authorization, "Bearer A2");
  }
  await Promise.all(calls);
  assert.deepEqual(world.requests, []);
  assert.equal(JSON.parse(world.stored.get("tokens")).refresh, "R2");
});

test("a call that is refused again after the refresh fails and keeps the sign-in", async () => {
  const world = new World();
  const client = await world.client();
  const call = client.call(ME);
  await world.answer(ME, 401, expired);
  await world.answer(REFRESH, 200, tokens(2));
  await world.answer(ME, 401, expired);
  await assert.rejects(call, { code: "UNAUTHENTICATED", status: 401 });
  assert.equal(client.state.signedOut, null);
});

test("a request for a code carries the token if there is one, and is sent once", async () => {
  const world = new World();
  const client = await world.client();
  const asked = { otp_request_id: "019aa4b6-5f00-7000-8000-a00000000001", expires_at: "", resend_after_seconds: 60 };
  for (const [status, body, header] of [
    [201, asked, "Bearer A1"],
    [429, refusal("OTP_COOLDOWN", { retry_after_seconds: 60 }), "Bearer A1"],
  ]) {
    const call = client.requestCode("0811");
    const request = await world.answer(ASK, status, body);
    assert.equal(request.headers.Authorization, header);
    await (status === 201 ? call : assert.rejects(call, { code: "OTP_COOLDOWN" }));
  }
  assert.deepEqual(world.requests, []);
});

test("the refresh holds the lock of all tabs for 3 s at most", async () => {
  const world = new World();
  const client = await world.client();
  client.call(ME).catch(() => {});
  await world.answer(ME, 401, expired);
  await world.request(REFRESH);
  assert.deepEqual(world.locks, [{ name: `sesi:${user("customer").id}`, timeoutMs: 3000 }]);
});

for (const [status, body, pause] of [
  [0, null, 500],
  [503, refusal("UNAVAILABLE", { retry_after_seconds: 7 }), 7000],
  [429, refusal("RATE_LIMITED", { retry_after_seconds: 3 }), 3000],
]) {
  test(`a refresh with the answer ${status} is repeated with the same token`, async () => {
    const world = new World();
    const client = await world.client();
    const call = client.call(ME);
    await world.answer(ME, 401, expired);
    await world.answer(REFRESH, status, body);
    await world.advance(pause - 1);
    assert.deepEqual(world.requests, []);
    await world.advance(1);
    const again = await world.answer(REFRESH, 200, tokens(2));
    assert.deepEqual(again.body, { refresh_token: "R1" });
    await world.answer(ME, 200, user("customer"));
    await call;
    assert.equal(client.state.signedOut, null);
  });
}

test("a refused refresh token signs out and empties the storage", async () => {
  const world = new World();
  const client = await world.client();
  const call = client.call(ME);
  await world.answer(ME, 401, expired);
  await world.answer(REFRESH, 401, refusal("REFRESH_INVALID"));
  await assert.rejects(call, { code: "UNAUTHENTICATED" });
  assert.deepEqual([client.state.signedOut, client.state.user, client.state.connection], ["expired", null, "stopped"]);
  assert.deepEqual([...world.stored.keys()], []);
});

test("tokens that another tab has stored are used instead of a refresh", async () => {
  const world = new World();
  const client = await world.client();
  const call = client.call(ME);
  world.stored.set("tokens", JSON.stringify({ access: "A2", refresh: "R2", user: user("customer") }));
  await world.answer(ME, 401, expired);
  const again = await world.answer(ME, 200, user("customer"));
  assert.equal(again.headers.Authorization, "Bearer A2");
  await call;
});

test("a refresh does not write over the tokens that another tab has stored meanwhile", async () => {
  const world = new World();
  const client = await world.client();
  const call = client.call(ME);
  await world.answer(ME, 401, expired);
  const winner = JSON.stringify({ access: "A3", refresh: "R3", user: user("customer") });
  const refresh = await world.request(REFRESH);
  world.stored.set("tokens", winner);
  refresh.resolve({ status: 200, header: () => null, text: JSON.stringify(tokens(2)) });
  const again = await world.answer(ME, 200, user("customer"));
  assert.equal(again.headers.Authorization, "Bearer A3");
  assert.equal(world.stored.get("tokens"), winner);
  await call;
});

test("a refresh that another tab has won is no sign-out", async () => {
  const world = new World();
  const client = await world.client();
  const call = client.call(ME);
  await world.answer(ME, 401, expired);
  const refresh = await world.request(REFRESH);
  world.stored.set("tokens", JSON.stringify({ access: "A3", refresh: "R3", user: user("customer") }));
  refresh.resolve({ status: 401, header: () => null, text: JSON.stringify(refusal("REFRESH_INVALID")) });
  await world.answer(ME, 200, user("customer"));
  await call;
  assert.equal(client.state.signedOut, null);
});

test("new tokens are stored before they are used", async () => {
  const world = new World();
  const client = world.newClient();
  const signIn = client.signInAnonymously();
  await world.answer("POST /api/shared/auth/anonymous", 201, tokens(1));
  assert.equal((await signIn).id, user("customer").id);
  await client.start();
  assert.equal(await world.authenticate(), "A1");
  const order = [];
  const { set } = world.stored;
  world.stored.set = (key, value) => {
    order.push(`${key} stored`);
    return set.call(world.stored, key, value);
  };
  await world.serve({ type: "auth_expiring" });
  await world.answer(REFRESH, 200, tokens(2));
  order.push(
    ...world
      .socket()
      .take()
      .map((frame) => `${frame.type} ${frame.token}`),
  );
  assert.deepEqual(order, ["tokens stored", "auth A2"]);
});

test("a new token goes over the open socket, and its auth_ok is no new start", async () => {
  const world = new World();
  const client = await world.client();
  await world.authenticate();
  client.send("019aa4b6-5f00-7000-8000-730000000001", "Halo");
  await settle();
  world.socket().take();
  await world.serve({ type: "auth_expiring" });
  await world.answer(REFRESH, 200, tokens(2));
  assert.deepEqual(world.socket().take(), [{ type: "auth", token: "A2" }]);
  await world.serve({ type: "auth_ok", ...world.hello("/ws/chat") });
  assert.deepEqual(world.socket().take(), []);
  assert.equal(world.opened(), 1);
});

test("a renewal that ends after a reconnect does not act on the new socket", async () => {
  const world = new World();
  await world.client();
  await world.authenticate();
  await world.serve({ type: "auth_expiring" });
  await world.close(1006);
  await world.advance(1000);
  world.socket().events.opened();
  await world.answer(REFRESH, 200, tokens(2));
  assert.deepEqual(world.socket().take(), [{ type: "auth", token: "A1" }]);
});

test("4401 renews the token before the next socket", async () => {
  const world = new World();
  const client = await world.client();
  await world.authenticate();
  await world.close(4401);
  await world.advance(60_000);
  assert.equal(world.opened(), 1);
  await world.answer(REFRESH, 200, tokens(2));
  await world.advance(500);
  assert.equal(await world.authenticate(), "A2");
  assert.equal(client.state.signedOut, null);
});

test("4403 signs out, and nothing opens a socket again", async () => {
  const world = new World();
  const client = await world.client();
  await world.authenticate();
  await world.close(4403);
  assert.deepEqual([client.state.signedOut, client.state.connection], ["revoked", "stopped"]);
  assert.deepEqual([...world.stored.keys()], []);
  const opened = world.sockets.length;
  await world.wake("online");
  await world.wake("visible");
  await world.advance(120_000);
  assert.equal(world.sockets.length, opened);
});

test("an anonymous customer signs in with a phone and keeps what they have", async () => {
  const world = new World();
  const client = await world.client();
  await world.authenticate();
  client.send("019aa4b6-5f00-7000-8000-730000000001", "Halo");
  await settle();
  const known = user("customer", { id: "019aa4b6-5f00-7000-8000-750000000009", is_anonymous: false });
  const signIn = client.verifyCode("019aa4b6-5f00-7000-8000-a00000000001", "123456");
  await world.answer(ME, 401, expired); // an expired token would be ignored
  await world.answer(REFRESH, 200, tokens(2));
  await world.answer(ME, 200, user("customer"));
  const verify = await world.request(VERIFY);
  assert.equal(verify.headers.Authorization, "Bearer A2");
  assert.deepEqual(verify.body, { otp_request_id: "019aa4b6-5f00-7000-8000-a00000000001", code: "123456" });
  await world.close(4403); // the anonymous sign-in ends before the answer arrives
  const answer = { ...tokens(3), customer: known };
  verify.resolve({ status: 200, header: () => null, text: JSON.stringify(answer) });
  assert.deepEqual(await signIn, known);
  assert.equal(client.state.signedOut, null);
  assert.equal(await world.authenticate(), "A3");
  assert.deepEqual(
    world
      .socket()
      .take()
      .map((frame) => frame.content),
    ["Halo"],
  );
  assert.deepEqual([...world.stored.keys()].sort(), [`${known.id}:outbox`, "tokens"]);
});

test("a sign-in whose answer is lost is repeated with its key, and the end of its own token signs nobody out", async () => {
  const world = new World();
  const client = await world.client();
  await world.authenticate();
  const signIn = client.verifyCode("019aa4b6-5f00-7000-8000-a00000000001", "123456");
  await world.answer(ME, 200, user("customer"));
  const first = await world.request(VERIFY);
  await world.close(4401); // the service has ended the anonymous sign-in
  await world.answer(REFRESH, 401, refusal("REFRESH_INVALID"));
  first.reject(new Error("lost"));
  await world.advance(1000);
  const second = await world.request(VERIFY);
  assert.equal(second.headers.Authorization, first.headers.Authorization);
  assert.equal(second.headers["Idempotency-Key"], first.headers["Idempotency-Key"]);
  assert.ok(second.headers["Idempotency-Key"]);
  const known = user("customer", { is_anonymous: false });
  second.resolve({ status: 200, header: () => null, text: JSON.stringify({ ...tokens(3), customer: known }) });
  assert.deepEqual(await signIn, known);
  await settle();
  assert.deepEqual([client.state.signedOut, client.state.user], [null, known]);
  assert.equal(await world.authenticate(), "A3");
});

test("another tab waits for the sign-in that ends its token, and goes on with the new one", async () => {
  const world = new World();
  let before = Promise.resolve();
  const lock = (_name, _timeoutMs, work) => {
    const run = before.then(work);
    before = run.catch(() => {});
    return run;
  };
  const ports = { ...world.ports, lock };
  const [first, second] = [await world.client("customer", { ports }), await world.client("customer", { ports })];
  await world.authenticate(); // the newest socket is the second tab's
  const signIn = first.verifyCode("019aa4b6-5f00-7000-8000-a00000000001", "123456");
  await world.answer(ME, 200, user("customer"));
  const verify = await world.request(VERIFY);
  await world.close(4401);
  await world.advance(1000);
  assert.deepEqual(world.requests, []);
  const known = user("customer", { is_anonymous: false });
  verify.resolve({ status: 200, header: () => null, text: JSON.stringify({ ...tokens(3), customer: known }) });
  await signIn;
  await world.advance(1000);
  assert.deepEqual(world.requests, []);
  for (const client of [first, second]) assert.deepEqual([client.state.signedOut, client.state.user], [null, known]);
  assert.equal(JSON.parse(world.stored.get("tokens")).refresh, "R3");
  assert.equal(await world.authenticate(), "A3");
});

test("a sign-in that fails after 4403 leaves the user signed out", async () => {
  const world = new World();
  const client = await world.client();
  await world.authenticate();
  const signIn = client.verifyCode("019aa4b6-5f00-7000-8000-a00000000001", "123456");
  await world.answer(ME, 200, user("customer"));
  const verify = await world.request(VERIFY);
  await world.close(4403);
  verify.resolve({ status: 401, header: () => null, text: JSON.stringify(refusal("OTP_INVALID")) });
  await assert.rejects(signIn, { code: "OTP_INVALID" });
  await settle();
  assert.equal(client.state.signedOut, "revoked");
});

test("a phone code is sent once, even without an answer", async () => {
  const world = new World();
  const client = world.newClient("mitra");
  const signIn = client.verifyCode("019aa4b6-5f00-7000-8000-a00000000001", "123456");
  await world.answer("POST /api/mitra/auth/otp/verify", 0);
  await assert.rejects(signIn, { code: "NETWORK", status: 0 });
  await world.advance(60_000);
  assert.deepEqual(world.requests, []);
});

test("sign-out forgets everything before the service answers", async () => {
  const world = new World();
  const client = await world.client();
  await world.authenticate();
  client.send("019aa4b6-5f00-7000-8000-730000000001", "Halo");
  const signOut = client.signOut();
  await settle();
  assert.deepEqual([client.state.signedOut, client.state.user], ["self", null]);
  assert.deepEqual([...world.stored.keys()], []);
  const logout = await world.answer("POST /api/shared/auth/logout", 0);
  assert.equal(logout.headers.Authorization, "Bearer A1");
  await signOut;
});

test("the end of a sign-in is shown when the storage has forgotten it", async () => {
  const world = new World();
  let forget = () => {};
  let written = Promise.resolve();
  const { remove, ...others } = world.storage;
  const storage = { ...others, remove: (key) => written.then(() => remove(key)) };
  const client = await world.client("customer", { storage });
  written = new Promise((resolve) => {
    forget = resolve;
  });
  const signOut = client.signOut();
  await settle();
  assert.deepEqual([client.state.signedOut, client.state.user], [null, user("customer")]);
  forget();
  await world.answer("POST /api/shared/auth/logout", 204);
  await signOut;
  assert.deepEqual([client.state.signedOut, client.state.user], ["self", null]);
  assert.deepEqual([...world.stored.keys()], []);
});

test("an erased account is forgotten here, after the service has erased it", async () => {
  const world = new World();
  const client = await world.client();
  const proof = { otp_request_id: "019aa4b6-5f00-7000-8000-a00000000001", code: "123456" };
  const refused = client.eraseAccount(proof);
  await world.answer("POST /api/client/auth/me/erase", 409, refusal("SESSION_IN_PROGRESS"));
  await assert.rejects(refused, { code: "SESSION_IN_PROGRESS" });
  assert.equal(client.state.signedOut, null);
  const erased = client.eraseAccount(proof);
  const call = await world.answer("POST /api/client/auth/me/erase", 202, { erasure_id: "e", began_at: "t" });
  assert.deepEqual(call.body, proof);
  await erased;
  assert.deepEqual([client.state.signedOut, client.state.user], ["self", null]);
  assert.deepEqual([...world.stored.keys()], []);
});

test("an export is asked for once", async () => {
  const world = new World();
  const client = await world.client();
  const refused = client.exportData();
  await world.answer("GET /api/client/auth/me/export", 429, refusal("RATE_LIMITED", { retry_after_seconds: 3600 }));
  await assert.rejects(refused, { code: "RATE_LIMITED" });
  const found = client.exportData();
  await world.answer("GET /api/client/auth/me/export", 200, { profiles: [] });
  assert.deepEqual(await found, { profiles: [] });
});

const FOREIGN = [{ login: "required" }, ["maintenance"], "busy", 7, { error: "login" }, { access_token: "A9" }, null];

test("what another program answers is stored nowhere, and the same request is repeated", async () => {
  for (const foreign of FOREIGN) {
    const world = new World();
    const client = await world.client();
    const before = new Map(world.stored);
    const calls = [
      [() => client.refreshUser(), ME, user("customer")],
      [() => client.setDisplayName("Dewi"), "PATCH /api/client/auth/profile", user("customer")],
      [
        () => client.pay({ duration_minutes: 12 }),
        "POST /api/client/payment/requests",
        { payment_request_id: "p", status: "pending" },
      ],
    ];
    for (const [call, route, answer] of calls) {
      const waiting = call();
      const first = await world.answer(route, 200, foreign);
      assert.deepEqual(world.stored.get("tokens"), before.get("tokens"));
      await world.advance(1000);
      const again = await world.answer(route, 200, answer);
      assert.deepEqual([again.body, again.headers], [first.body, first.headers]);
      await waiting;
    }
    assert.deepEqual(Object.keys(client.state.payments), ["p"]);
  }
});

test("a refusal of another program is an error without its words", async () => {
  const world = new World();
  const client = await world.client();
  for (const error of ["login_required", { reason: "x" }, { code: 7 }]) {
    const refused = client.call(ME);
    await world.answer(ME, 400, { error });
    await assert.rejects(refused, { code: "ERROR", status: 400 });
  }
});
