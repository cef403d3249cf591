/** The library reproduces every conversation vector. */

import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { createClient } from "../../api/web/client/index.js";
import { play } from "./player.mjs";

const FOLDER = new URL("../vectors/", import.meta.url);
const OTHERS = ["mutations.json", "objects.json", "schema.json"];

for (const name of readdirSync(FOLDER).filter((one) => one.endsWith(".json") && !OTHERS.includes(one))) {
  const vector = JSON.parse(readFileSync(new URL(name, FOLDER), "utf8"));
  test(`${name}: ${vector.name}`, () => play(vector, createClient));
}
