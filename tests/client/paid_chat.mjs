/**
 * A paid chat of two clients with the real service, for test_paid_chat.py. It prints the payment request that is to be
 * paid, and at the end what both clients show.
 */

import { createClient, memoryStorage } from "../../api/web/client/index.js";

const { api, sockets, mitra: signedIn } = JSON.parse(process.env.SERVICE);
const report = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

/** Wait until `look` returns something for the client's state. */
const until = (client, look) =>
  new Promise((resolve) => {
    let stop = () => {};
    const check = () => {
      const found = look(client.state);
      if (!found) return;
      stop();
      resolve(found);
    };
    stop = client.subscribe(check);
    check();
  });

const desk = memoryStorage();
await desk.set("tokens", JSON.stringify(signedIn));
const mitra = createClient({ role: "mitra", api, sockets, storage: desk });
const customer = createClient({ role: "customer", api, sockets, storage: memoryStorage() });
await mitra.start();
await mitra.goOnline();
await customer.start();
await customer.signInAnonymously();
await customer.setDisplayName("Ani");
await Promise.all([customer, mitra].map((client) => until(client, (state) => state.connection === "open")));

const payment = await customer.pay({ duration_minutes: 12, topics: ["work"] });
report({ pay: payment });
const request = await until(mitra, (state) => state.requests.find((one) => one.customer_display_name === "Ani"));
const { id } = await mitra.accept(request.session_id);
await until(customer, (state) => state.searchEnd?.status === "paired" && state.chats[id]);

customer.send(id, "Halo Kak");
mitra.send(id, "Halo Ani", { mood: "kind" });
await customer.stop(); // the phone loses its network, and the mitra writes on
mitra.send(id, "Ada apa?");
await until(mitra, ({ chats }) => chats[id].messages.filter((one) => one.state === "sent").length >= 2);
await customer.start();
customer.send(id, "x".repeat(1000).concat("😀".repeat(3000 / 2), "\n".repeat(1500)));
const count = (state) => state.chats[id]?.messages.filter((one) => one.seq !== null).length;
await until(customer, (state) => count(state) === 4);
customer.markRead(id);
await until(
  mitra,
  ({ chats }) => count({ chats }) === 4 && chats[id].messages.every((one) => !one.own || one.state === "read"),
);

await mitra.setTopic(id, "sensitive");
await until(customer, ({ chats }) => chats[id].session.topic_sensitivity === "sensitive");
await customer.call("GET /api/client/auth/me");
const drift = customer.now() - mitra.now();
report({
  transcripts: [customer, mitra].map(({ state }) => state.chats[id].messages.map((one) => one.content)),
  drift,
});
await mitra.goOffline();
await Promise.all([customer.signOut(), mitra.stop()]);
report({ signedOut: customer.state.signedOut, user: customer.state.user });
process.exit(0);
