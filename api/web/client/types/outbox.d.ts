export type Unsent = {
    /**
     * client_message_id
     */
    id: string;
    sessionId: string;
    content: string;
    metadata: Record<string, unknown> | null;
    refusal: {
        status: number;
        code: string;
        message: string;
        details: object;
    } | null;
};
export type Line = {
    inFlight: Set<string>;
    slow: boolean;
    held: boolean;
    timer: unknown;
};
/** Own messages without an acknowledgement: stored before they are sent, and repeated unchanged. */
export declare class Outbox {
    #private;
    /** @type {readonly Unsent[]} in the order in which the user wrote them */
    entries: readonly Unsent[];
    /** @param {import("./device.js").Device} device */
    constructor(device: import("./device.js").Device);
    /**
     * Read a user's stored messages. Those of an anonymous customer who has become this user are kept.
     * @param {string} userId
     */
    load(userId: string): Promise<void>;
    /** Forget everything, also what is stored. */
    empty(): Promise<void>;
    /**
     * Store a message, then send it.
     * @param {Unsent} entry
     */
    add(entry: Unsent): Promise<void>;
    /**
     * Take a message out, because the service has it or the user gives it up.
     * @param {string} id
     */
    take(id: string): void;
    /**
     * Handle the refusal of a message.
     * @param {string} id
     * @param {import("./errors.js").SesiError} error
     */
    refuse(id: string, error: import("./errors.js").SesiError): void;
    /**
     * Send a refused message once more.
     * @param {string} id
     */
    retry(id: string): void;
    /** Send everything over a new socket. */
    resend(): void;
    /**
     * Return a message that is here.
     * @param {string} id
     */
    find(id: string): Unsent | undefined;
}
