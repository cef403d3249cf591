/**
 * The phones of a chaos run, in one process. Each line of the input is a command
 * `{"n", "phone", "do", "with": [arguments]}`; its answer is a line `{"n", "answer"}` or `{"n", "error"}`. A line
 * `{"violation"}` reports what must not happen.
 */

import { createInterface } from "node:readline";
import { SesiError } from "../../../api/web/client/index.js";
import { Phone } from "./phone.mjs";

/** @type {Map<string, Phone>} */
const phones = new Map();

/** @param {object} line */
const write = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

/** @param {{ phone: string, do: string, with: any[] }} command */
async function carryOut({ phone: name, do: what, with: args }) {
  if (what === "begin") {
    const [role, api, sockets, headers] = args;
    const phone = new Phone(role, headers, (violation) => write({ violation: `${name}: ${violation}` }));
    phones.set(name, phone);
    return phone.begin(api, sockets);
  }
  const phone = phones.get(name);
  if (!phone) throw new Error(`There is no phone ${name}.`);
  return /** @type {any} */ (phone)[what](...args);
}

/** @param {unknown} error */
const described = (error) =>
  error instanceof SesiError
    ? { status: error.status, code: error.code, message: error.message, details: error.details }
    : { status: 0, code: "EXCEPTION", message: error instanceof Error ? error.stack : String(error) };

process.on("unhandledRejection", (error) => write({ violation: `unhandled: ${described(error).message}` }));

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  // In a turn of its own, so that no app is killed while it stores the message of the command before.
  setImmediate(() =>
    carryOut(command).then(
      (answer) => write({ n: command.n, answer: answer ?? null }),
      (error) => write({ n: command.n, error: described(error) }),
    ),
  );
}
process.exit(0);
