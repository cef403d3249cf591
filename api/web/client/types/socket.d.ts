/** One path's connection: at most one socket at a time, opened again until `stop`. */
export declare class Connection {
    #private;
    /** Whether the present socket is authenticated. */
    isOpen: boolean;
    isStopped: boolean;
    /** Counts sockets, so that a callback of an older one is ignored. */
    generation: number;
    /**
     * @param {import("./device.js").Device} device
     * @param {string} sockets base address
     * @param {"chat" | "pairing"} path
     */
    constructor(device: import("./device.js").Device, sockets: string, path: "chat" | "pairing");
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
