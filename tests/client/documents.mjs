/** What the player serves: a vector's few fields, laid over the frames and bodies that the service has sent. */

import { readFileSync } from "node:fs";

const read = (path) => JSON.parse(readFileSync(new URL(path, import.meta.url), "utf8"));
const OBJECTS = read("../vectors/objects.json");
/** Only a fault of the service makes it send such a frame. */
const UNRECORDED_ERROR = { type: "error", code: "UNAVAILABLE", message: "The service is unavailable." };
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
  const recorded = OBJECTS.frames[`${role} ${path}`];
  if (fields.type === "error") return layOver(fields, recorded[`error ${fields.code}`] ?? UNRECORDED_ERROR);
  const found = recorded[`${fields.type} ${fields.status}`] ?? recorded[fields.type];
  if (!found) throw new Error(`no ${fields.type} to a ${role} on ${path} was recorded`);
  return layOver(fields, found);
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
