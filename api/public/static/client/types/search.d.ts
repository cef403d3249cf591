/** @import { SearchEnd, Session } from "./types.d.ts" */
import type { SearchEnd, Session } from "./types.d.ts";
export type World = {
    feed: import("./feed.js").Feed;
    payments: import("./payments.js").Payments;
    /**
     * null after a failure
     */
    readSession: (sessionId: string) => Promise<Session | null>;
    publish: (patch: {
        search?: Session | null;
        searchEnd?: SearchEnd | null;
    }) => void;
};
/**
 * @typedef {object} World
 * @property {import("./feed.js").Feed} feed
 * @property {import("./payments.js").Payments} payments
 * @property {(sessionId: string) => Promise<Session | null>} readSession null after a failure
 * @property {(patch: { search?: Session | null, searchEnd?: SearchEnd | null }) => void} publish
 */
/** A customer's search for a mitra. */
export declare class Search {
    #private;
    /** @param {World} world */
    constructor(world: World);
    /** Forget the search. */
    clear(): void;
    /**
     * Handle the snapshot of `/ws/pairing`.
     * @param {{ searching: Session | null }} frame
     */
    authenticated({ searching }: {
        searching: Session | null;
    }): void;
    /**
     * Handle a frame of `/ws/pairing`. Return whether the app should see it.
     * @param {any} frame
     * @returns {boolean}
     */
    receive(frame: any): boolean;
}
