/** What the parties of a session let each other see besides messages: how far they have read, and that they type. */
export declare class EphemeralFrames {
    #private;
    /** @param {import("./device.js").Device} device */
    constructor(device: import("./device.js").Device);
    /**
     * Mark everything that is shown as read.
     * @param {string} id session id
     */
    markRead(id: string): void;
    /**
     * Let the other party see that the user types.
     * @param {string} id session id
     */
    typing(id: string): void;
    /** @param {{ session_id: string, status: "delivered" | "read", up_to: number }} frame */
    receiveMark({ session_id: id, status, up_to }: {
        session_id: string;
        status: "delivered" | "read";
        up_to: number;
    }): Promise<void>;
    /** @param {{ session_id: string, is_typing: boolean }} frame */
    receiveTyping({ session_id: id, is_typing }: {
        session_id: string;
        is_typing: boolean;
    }): void;
}
