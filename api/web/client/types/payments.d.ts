import type { PaymentRequest } from "./types.d.ts";
/** The payment requests that were made, read or reported on this device. */
export declare class Payments {
    #private;
    /** @param {import("./device.js").Device} device */
    constructor(device: import("./device.js").Device);
    /** Forget the key of a payment without an answer. */
    forgetKey(): Promise<void>;
    /**
     * Make a payment request. The same wish has the same idempotency key until there is an answer. Raises SesiError.
     * @param {string} route
     * @param {object} body
     * @returns {Promise<PaymentRequest>}
     */
    make(route: string, body: object): Promise<PaymentRequest>;
    /**
     * Read a request. Raises SesiError.
     * @param {string} id
     */
    read(id: string): Promise<PaymentRequest>;
    /**
     * Call a route whose answer is a payment request. Raises SesiError.
     * @param {string} route
     * @param {import("./types.d.ts").CallOptions} options
     * @returns {Promise<PaymentRequest>}
     */
    ask(route: string, options: import("./types.d.ts").CallOptions): Promise<PaymentRequest>;
    /**
     * Read a request that is known, because an event has changed it.
     * @param {string} id
     */
    refresh(id: string): Promise<void>;
    /** Read the pending requests, because an event may have been missed. */
    refreshPending(): Promise<void>;
    /** @param {PaymentRequest} request */
    keep(request: PaymentRequest): void;
    /** Poll while a payment is pending and the client is started. */
    watch(): void;
}
