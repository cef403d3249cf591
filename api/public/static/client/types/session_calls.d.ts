/** @import { CallOptions, Extension, Message, Session } from "./types.d.ts" */
/** @typedef {(route: string, options: CallOptions) => Promise<any>} Call */
import type { CallOptions, Extension, Message, Session } from "./types.d.ts";
export type Call = (route: string, options: CallOptions) => Promise<any>;
/** Requests about sessions. All raise SesiError. */
export declare class SessionCalls {
    #private;
    /** @param {Call} call */
    constructor(call: Call);
    /**
     * @param {string} id
     * @returns {Promise<Session>}
     */
    read(id: string): Promise<Session>;
    /**
     * Return the messages before a `seq`, or the last ones.
     * @param {string} id
     * @param {number} [before]
     * @returns {Promise<Message[]>}
     */
    messages(id: string, before?: number): Promise<Message[]>;
    /**
     * @param {string} route
     * @param {string} id
     * @param {object} [body]
     * @returns {Promise<Session>}
     */
    act(route: string, id: string, body?: object): Promise<Session>;
    /**
     * @param {string} id
     * @param {string} extensionId
     * @param {boolean} accept
     * @returns {Promise<Extension>}
     */
    answer(id: string, extensionId: string, accept: boolean): Promise<Extension>;
}
