/** Whether a mitra is online, and the heartbeats that keep them so. */
export declare class Presence {
    #private;
    /** @param {import("./device.js").Device} device */
    constructor(device: import("./device.js").Device);
    /** Read the status, because it may have changed while no socket was open. */
    refresh(): Promise<void>;
    /**
     * Go online or offline, or say that the mitra still is online. Raises SesiError.
     * @param {"online" | "offline" | "heartbeat"} action
     */
    change(action: "online" | "offline" | "heartbeat"): Promise<void>;
    /** Send no more heartbeats. */
    stop(): void;
    /**
     * Handle a frame of `/ws/pairing`.
     * @param {any} frame
     */
    receive(frame: any): void;
    /**
     * Answer a presence check; return whether the push was one.
     * @param {Record<string, unknown>} push its data
     */
    answer(push: Record<string, unknown>): Promise<boolean>;
}
