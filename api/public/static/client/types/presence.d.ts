import type { MitraStatus, Ports } from "./types.d.ts";
export type World = {
    ports: Ports;
    /**
     * service seconds in one real second
     */
    scale: number;
    /**
     * onto the pairing socket; false without one
     */
    send: (frame: object) => boolean;
    /**
     * `once`: without repeats
     */
    call: (route: string, once?: boolean) => Promise<any>;
    publish: (patch: {
        status: MitraStatus | null;
        statusReason?: string | null;
    }) => void;
};
/** Whether a mitra is online, and the heartbeats that keep them so. */
export declare class Presence {
    #private;
    /** @param {World} world */
    constructor(world: World);
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
