/** What the player serves: a vector's few fields, laid over the examples of the interface documents. */

import { readFileSync } from "node:fs";

const read = (path) => JSON.parse(readFileSync(new URL(path, import.meta.url), "utf8"));
const SOCKETS = read("../../docs/api/sockets.asyncapi.json");
const OBJECTS = read("../vectors/objects.json");
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** Return `fields` with what they leave out taken from the example; each item of a list is laid over its first. */
function layOver(fields, example) {
  if (Array.isArray(fields)) {
    const under = Array.isArray(example) ? example[0] : undefined;
    return fields.map((item) => layOver(item, under));
  }
  if (!isObject(fields)) return fields;
  const under = isObject(example) ? example : {};
  const over = Object.entries(fields).map(([key, value]) => [key, layOver(value, under[key])]);
  return { ...under, ...Object.fromEntries(over) };
}

/** Return a whole frame of the service for the fields of a vector. */
export function wholeFrame(role, path, fields) {
  const references = Object.values(SOCKETS.channels[path.slice("/ws/".length)].messages);
  const messages = references.map(({ $ref }) => SOCKETS.components.messages[$ref.split("/").at(-1)]);
  const message = messages.find((one) => one.name === fields.type && one["x-sent-to"]?.includes(role));
  if (!message) throw new Error(`the service sends no ${fields.type} to a ${role} on ${path}`);
  const { ref: _, ...example } = message.examples[0].payload;
  if (fields.type === "auth_ok") example.user = { id: "$me", type: role };
  return layOver(fields, example);
}

/** Return a whole body for the fields of a vector: `like` names the object of objects.json under it. */
export function wholeBody(body) {
  if (!isObject(body) || !("like" in body)) return body ?? null;
  const { like, ...fields } = body;
  return layOver(fields, OBJECTS.schemas[like]);
}

/** Return the body with which the player answers a request that no vector mentions, or null. */
export function usualBody(route) {
  const found = Object.entries(OBJECTS.routes).find(([template]) =>
    new RegExp(`^${template.replace(/\{\w+\}/g, "[^/]+")}$`).test(route),
  );
  return found ? OBJECTS.schemas[found[1]] : null;
}

/** Return the stored user of a role. */
export const storedUser = (role) => OBJECTS.schemas[role === "customer" ? "Customer" : "Mitra"];
