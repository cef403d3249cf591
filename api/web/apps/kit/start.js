/** What both apps do before they show anything: the frame's name, the preferences, and the words of the kit. */

import { SesiError } from "/client/index.js";
import { preferences } from "/try/shared/preferences.js";
import { service } from "/try/shared/service.js";
import { addWords } from "/try/shared/words.js";
import { explain } from "./errors.js";
import { INDONESIAN } from "./words.id.js";

/**
 * Read the address, so that several apps fit on one page: `?frame=NAME` separates what they store, and `?lang=` and
 * `?theme=` override the preferences. Returns the prefix of storage keys and the whole query.
 *
 * @param {"customer" | "mitra"} role
 * @param {Record<string, string>} words English text -> Indonesian text of the app
 */
export function prepare(role, words) {
  const query = new URLSearchParams(location.search);
  const prefix = `sesi:${role}:${query.get("frame") ?? "main"}:`;
  addWords({ ...INDONESIAN, ...words });
  preferences.keepAt(`${prefix}preferences`, {
    language: ["id", "en"].find((one) => one === query.get("lang")),
    theme: ["light", "dark"].find((one) => one === query.get("theme")),
  });
  preferences.apply();
  return { prefix, query };
}

/** Let the shared modules use the client's clock and errors. */
export function connectShared(client) {
  service.Failure = SesiError;
  service.message = explain;
  service.now = () => client.now();
}

/** Read `/try/config.json`: the service's addresses, the time scale, and the mitras of the sandbox. */
export async function readConfig() {
  const response = await fetch("/try/config.json");
  if (!response.ok) throw new Error(`/try/config.json answered ${response.status}`);
  return response.json();
}

/** Report the push by which the app was opened, whose `event_id` is in the address: `?push=ID`. */
export async function reportPush(client, query) {
  const eventId = query.get("push");
  if (eventId === null || client.state.user === null) return;
  await client.pushOpened(eventId).catch(() => {}); // support reads it; the user misses nothing
}
