/** Events by id: each is acknowledged whenever it arrives, and acted on once, unless a later one was there before. */
export declare class Feed {
    #private;
    /**
     * Return whether an event is new, and no later one about the same object has arrived.
     * @param {any} frame
     */
    isNew(frame: any): boolean;
    /** Forget the order of events, because the service's database was replaced. */
    forgetOrder(): void;
}
/** @param {string} eventId */
export declare const ackFrame: (eventId: string) => {
    type: string;
    ref: string;
    event_id: string;
};
/**
 * Return the event whose acknowledgement was refused for the moment, or null.
 * @param {any} frame
 * @returns {string | null}
 */
export declare const refusedAck: (frame: any) => string | null;
