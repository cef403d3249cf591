import type { Session } from "./types.d.ts";
/** @import { SearchEnd, Session } from "./types.d.ts" */
/** A customer's search for a mitra. */
export declare class Search {
    #private;
    /** @param {import("./device.js").Device} device */
    constructor(device: import("./device.js").Device);
    /**
     * Handle the snapshot of `/ws/pairing`.
     * @param {{ searching: Session | null }} frame
     */
    authenticated({ searching }: {
        searching: Session | null;
    }): void;
    /**
     * Handle a frame of `/ws/pairing`.
     * @param {any} frame
     */
    receive(frame: any): void;
}
