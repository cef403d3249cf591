import type { Ports } from "./types.d.ts";
export type Listener = {
    /**
     * `isNew`: on a new socket
     */
    authenticated: (frame: any, isNew: boolean) => void;
    /**
     * any other frame
     */
    received: (frame: any) => void;
    /**
     * opened or lost
     */
    changed: () => void;
    /**
     * by a close code after which the client must not reconnect
     */
    ended: (code: number) => void;
};
/**
 * @typedef {object} Listener
 * @property {(frame: any, isNew: boolean) => void} authenticated `isNew`: on a new socket
 * @property {(frame: any) => void} received any other frame
 * @property {() => void} changed opened or lost
 * @property {(code: number) => void} ended by a close code after which the client must not reconnect
 */
/** One path's connection: at most one socket at a time, opened again until `stop`. */
export declare class Connection {
    #private;
    /** Whether the present socket is authenticated. */
    isOpen: boolean;
    isStopped: boolean;
    /** Counts sockets, so that a callback of an older one is ignored. */
    generation: number;
    /**
     * @param {string} url
     * @param {Ports} ports
     * @param {import("./service_clock.js").ServiceClock} clock
     * @param {import("./tokens.js").Tokens} tokens
     * @param {Listener} listener
     * @param {boolean} waitsWhileHidden whether a hidden page reconnects only when it is visible
     */
    constructor(url: string, ports: Ports, clock: import("./service_clock.js").ServiceClock, tokens: import("./tokens.js").Tokens, listener: Listener, waitsWhileHidden: boolean);
    /** Connect, and stay connected. */
    start(): void;
    /** Disconnect, and stay so. */
    stop(): void;
    /**
     * Send a frame. Return false without an authenticated socket.
     * @param {object} frame
     */
    send(frame: object): boolean;
    /**
     * React to a change of the page or the network: an open socket may be dead, and a wait may be over.
     * @param {"visible" | "online"} change
     */
    wake(change: "visible" | "online"): void;
}
