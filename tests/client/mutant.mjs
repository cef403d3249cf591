/** Play the vectors with a changed copy of the library, whose folder is the argument. Exit with 1 if one fails. */

import { readdirSync, readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { play } from "./player.mjs";

const FOLDER = new URL("../vectors/", import.meta.url);
const { createClient } = await import(pathToFileURL(`${process.argv[2]}/index.js`).href);

for (const name of readdirSync(FOLDER).filter((one) => one.endsWith(".json"))) {
  const vector = JSON.parse(readFileSync(new URL(name, FOLDER), "utf8"));
  if (!vector.steps) continue; // objects.json, schema.json
  try {
    await play(vector, createClient);
  } catch (error) {
    console.log(`${name}: ${error.message}`);
    process.exit(1);
  }
}
process.exit(0);
