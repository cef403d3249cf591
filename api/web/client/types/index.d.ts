export { Client, createClient } from "./client.js";
export { SesiError } from "./errors.js";
export { verifyReceipt } from "./receipts.js";
export { browserStorage, memoryStorage } from "./storage.js";
export type * from "./types.d.ts";
