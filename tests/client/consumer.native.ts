// As consumer.ts: an app of React Native against the types of its entry.

import type { NativeModules, ShownMessage, State } from "sesi-client";
import { createClient, SesiError, useSesi } from "sesi-client";

declare const modules: NativeModules;
const addresses = { api: "https://api.example.com", sockets: "wss://sockets.example.com" };
const client = createClient({ role: "customer", ...addresses, native: modules });
// @ts-expect-error the modules are missing
createClient({ role: "customer", ...addresses });
// @ts-expect-error a module is missing
createClient({ role: "customer", ...addresses, native: { Crypto: modules.Crypto } });

const state: State = useSesi(client);
const messages: readonly ShownMessage[] | undefined = useSesi(client, ({ chats }) => chats["019a"]?.messages);
// @ts-expect-error it may not be open
messages.length;
const isOpen: boolean = useSesi(client, ({ connection }) => connection === "open");

client.pay({ duration_minutes: 12 }).catch((error: unknown) => error instanceof SesiError && error.code);
export { isOpen, state };
