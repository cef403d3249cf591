/** The service's clock, measured by answers and kept by the device's monotonic clock, never by its calendar. */
export declare class ServiceClock {
    #private;
    scale: number;
    /**
     * @param {import("./types.d.ts").TimePort} time
     * @param {number} scale service seconds in one real second
     */
    constructor(time: import("./types.d.ts").TimePort, scale: number);
    /** Return the service's time in milliseconds since 1970. Before the first answer it is the device's. */
    now(): number;
    /**
     * Return the service's time in `ms` real milliseconds.
     * @param {number} ms
     */
    fromNow(ms: number): number;
    /**
     * Learn from an answer with the service's time, whose request left at `began` and which arrived at `ended`.
     * @param {string | null | undefined} serverTime
     * @param {number} began monotonic milliseconds
     * @param {number} ended monotonic milliseconds
     */
    learn(serverTime: string | null | undefined, began: number, ended: number): void;
    /**
     * Run `callback` when the service's clock reaches `time`. Return a function that cancels it.
     * @param {number} time milliseconds since 1970
     * @param {() => void} callback
     */
    after(time: number, callback: () => void): () => void;
}
