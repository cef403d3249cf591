/**
 * Play vectors with a changed copy of the library, whose folder is the first argument. Exit with 1 if one fails. The
 * other arguments are the names of the vectors; without any, all are played.
 */

import { readdirSync, readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { play } from "./player.mjs";

const FOLDER = new URL("../vectors/", import.meta.url);
const [library, ...names] = process.argv.slice(2);
const { createClient } = await import(pathToFileURL(`${library}/index.js`).href);
const all = readdirSync(FOLDER).filter((one) => one.endsWith(".json"));

for (const name of names.length ? names.map((one) => `${one}.json`) : all) {
  const vector = JSON.parse(readFileSync(new URL(name, FOLDER), "utf8"));
  if (!vector.steps) continue; // objects.json, schema.json, mutations.json
  try {
    await play(vector, createClient);
  } catch (error) {
    console.log(`${name}: ${error.message}`);
    process.exit(1);
  }
}
process.exit(0);
