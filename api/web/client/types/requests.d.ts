/** @import { ChatRequest, Session } from "./types.d.ts" */
import type { ChatRequest, Session } from "./types.d.ts";
/** The chat requests that a mitra can answer. */
export declare class Requests {
    #private;
    /** @param {import("./device.js").Device} device */
    constructor(device: import("./device.js").Device);
    /**
     * Replace the open requests by those of a snapshot.
     * @param {ChatRequest[]} requests
     */
    replace(requests: ChatRequest[]): void;
    /**
     * Handle a frame of `/ws/pairing`.
     * @param {any} frame
     */
    receive(frame: any): void;
    /**
     * Accept a request and return its session. Raises SesiError.
     * @param {string} id session id
     * @returns {Promise<Session>}
     */
    accept(id: string): Promise<Session>;
    /**
     * Reject a request. Raises SesiError.
     * @param {string} id session id
     */
    reject(id: string): Promise<void>;
}
