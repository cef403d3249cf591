// An app's code against the published types. The compiler checks it; each @ts-expect-error marks a mistake it must find.

import type { Chat, ChatRequest, PaymentBody, PaymentRequest, Routes, ServerFrame, Session, State } from "sesi-client";
import { browserStorage, createClient, SesiError } from "sesi-client";

const options = { api: "http://127.0.0.1:8000", sockets: "ws://127.0.0.1:8010", storage: browserStorage("app:") };
const client = createClient({ ...options, role: "customer" });
// @ts-expect-error operators have no client
createClient({ ...options, role: "operator" });
// @ts-expect-error the address of the sockets is missing
createClient({ role: "mitra", api: options.api });

function show(state: State): string[] {
  const search: Session | null = state.search;
  // @ts-expect-error the search may be null
  search.status;
  const chat: Chat | undefined = state.chats["019aa4b6-5f00-7000-8000-000000005001"];
  // @ts-expect-error a chat that is not open is undefined
  chat.messages;
  if (state.connection === "open" && chat) {
    // @ts-expect-error an error is an object
    chat.messages[0]?.error?.toFixed();
    const refused = chat.messages.filter((message) => message.state === "refused");
    return refused.map((message) => message.error?.code ?? message.content);
  }
  // @ts-expect-error "closed" is no state of the connection
  return state.connection === "closed" ? [] : state.requests.map((request: ChatRequest) => request.kind);
}

client.subscribe(show);
client.on((frame: ServerFrame) => {
  if (frame.type !== "pairing_status") return;
  // @ts-expect-error only a paired search has a mitra
  frame.mitra;
  if (frame.status === "paired") frame.mitra.display_name?.toUpperCase();
  if (frame.status === "searching") frame.asked.toFixed();
});

async function run(): Promise<PaymentRequest> {
  const page = await client.call("GET /api/client/chat/history", { query: { limit: 20 } });
  page.items.map((row) => row.mitra_is_online);
  // @ts-expect-error the route has another name
  await client.call("GET /api/client/history");
  // @ts-expect-error the path's id is missing
  await client.call("GET /api/shared/chat/sessions/{session_id}");
  const one = await client.call("GET /api/shared/chat/sessions/{session_id}", { path: { session_id: "019a" } });
  // @ts-expect-error times are text
  one.expires_at?.getTime();
  const nothing: null = await client.call("POST /api/client/usp-seen");
  const body: PaymentBody = { mode: "chat", duration_minutes: 15 };
  // @ts-expect-error there is no such mode
  body.mode = "video";
  try {
    return await client.pay(body);
  } catch (error) {
    if (!(error instanceof SesiError)) throw error;
    if (error.code === "ACCOUNT_BLOCKED" || error.code === "PRICE_CHANGED") {
      const { until, amount } = error.details;
      // @ts-expect-error a price is a number
      return Promise.reject([until?.toUpperCase(), amount?.toUpperCase()]);
    }
    if (error.code === "SESSION_IN_PROGRESS") return Promise.reject(nothing);
    if (error.code === "NETWORK" || error.code === "A_NEW_CODE") return Promise.reject(error.retryAfterSeconds);
    // @ts-expect-error a status is a number
    return error.status === "409" ? Promise.reject(error) : Promise.reject(error.requestId);
  }
}

async function leave(sessionId: string): Promise<string[]> {
  await client.report(sessionId, "rude");
  // @ts-expect-error there is no such reason
  await client.report(sessionId, "boring", "Kasar");
  const blocked: string = (await client.block(sessionId)).blocked_at;
  await client.unblock(sessionId);
  const { items } = await client.blocks();
  const { items: charged } = await client.call("GET /api/client/transactions");
  const back = charged.filter((one) => one.type === "refund").map((one) => String(one.amount));
  return [blocked, ...back, ...items.map((one) => one.display_name ?? one.session_id)];
}

type Answer<R extends keyof Routes> = Routes[R]["answer"];
const answer: (tokens: Answer<"POST /api/shared/auth/refresh">) => string = (tokens) =>
  "customer" in tokens ? tokens.customer.id : tokens.mitra.id;
// @ts-expect-error the answer of this route has no such field
const wrong: (answer: Answer<"GET /api/shared/config/otp">) => number = (otp) => otp.length;

run().then(() => client.stop());
export { answer, leave, wrong };
