/** Whether a mitra is online, and the heartbeats that keep them so. */
export declare class Presence {
    #private;
    /** @param {import("./device.js").Device} device */
    constructor(device: import("./device.js").Device);
    /** Read the status, because it may have changed while no socket was open. */
    refresh(): Promise<void>;
    /** Go online. Raises SesiError. */
    goOnline(): Promise<void>;
    /** Go offline. Raises SesiError. */
    goOffline(): Promise<void>;
    /** Forget the status. */
    clear(): void;
    /** Send no more heartbeats. */
    stop(): void;
    /**
     * Handle a frame of `/ws/pairing`.
     * @param {any} frame
     */
    receive(frame: any): void;
}
