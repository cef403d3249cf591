import type { SesiError } from "./errors.js";
import type { Message } from "./transcript.js";
import type { Entry } from "./chats.js";
/** Completes transcripts by `sync`, and reads them again when the service's database was replaced. */
export declare class Sync {
    #private;
    /** @param {import("./device.js").Device} device */
    constructor(device: import("./device.js").Device);
    /** Begin with a new socket: answers to requests on the older one will not come. */
    restart(): void;
    /** Forget the epoch, because another user has signed in. */
    clear(): void;
    /**
     * Ask for the messages behind those that are known, unless that was asked.
     * @param {Entry | undefined} entry
     */
    request(entry: Entry | undefined): void;
    /**
     * Handle an answer to `sync`, and ask for the next page.
     * @param {{ session_id: string, messages: Message[], more: boolean, epoch: string, digest?: string | null }} page
     */
    receive({ session_id, messages, more, epoch, digest }: {
        session_id: string;
        messages: Message[];
        more: boolean;
        epoch: string;
        digest?: string | null;
    }): void;
    /**
     * Repeat a `sync` that was refused for the moment. Return false if the error is about something else.
     * @param {string | undefined} ref
     * @param {SesiError} error
     */
    refused(ref: string | undefined, error: SesiError): boolean;
    /**
     * Remember the epoch. If it has changed, read all transcripts again after a random wait, and return true.
     * @param {string} epoch
     */
    seeEpoch(epoch: string): boolean;
}
