import type { Account, ClientOptions, FrameListener, Locale, RouteArguments, Routes, State } from "./types.d.ts";
import type { CodeRequest, EraseBody, Export, Extension, PaymentBody, PaymentRequest, ReturningBody, Sensitivity, Session, SignedReceipt } from "./types.d.ts";
/** One device of one user. Every method that returns a promise of an answer raises SesiError. */
export declare class Client {
    #private;
    /** @param {ClientOptions} options */
    constructor(options: ClientOptions);
    /** What an app shows; a new frozen object after each change. */
    get state(): Readonly<State>;
    /**
     * Call `listener` after changes of the state, once a microtask. Return a function that ends it.
     * @param {(state: State) => void} listener
     * @returns {() => void}
     */
    subscribe(listener: (state: State) => void): () => void;
    /**
     * Call `listener` with each new frame of the service that an app may show. Return a function that ends it.
     * @param {FrameListener} listener
     * @returns {() => void}
     */
    on(listener: FrameListener): () => void;
    /** Read the stored sign-in, and connect if there is one. Connects again what a newer device has replaced. */
    start(): Promise<void>;
    /** Disconnect. The sign-in and unsent messages stay stored. */
    stop(): Promise<void>;
    /**
     * Call a route of the public listener, such as `GET /api/client/chat/history`.
     * @template {keyof Routes} R
     * @param {R} route
     * @param {RouteArguments<R>} options path, query, body and `idempotencyKey`
     * @returns {Promise<Routes[R]["answer"]>}
     */
    call<R extends keyof Routes>(route: R, ...[options]: RouteArguments<R>): Promise<Routes[R]["answer"]>;
    /** Return the service's time in milliseconds since 1970. */
    now(): number;
    /**
     * Return the service seconds until `time`, 0 for null and past times.
     * @param {string | null} time
     */
    secondsUntil(time: string | null): number;
    /**
     * Run `callback` when the service's clock reaches `time`. Return a function that cancels it.
     * @param {string} time
     * @param {() => void} callback
     * @returns {() => void}
     */
    after(time: string, callback: () => void): () => void;
    /**
     * Set the language of error messages, and of pushes from the next refresh on.
     * @param {Locale} locale
     */
    setLocale(locale: Locale): void;
    /**
     * Report that the user opened the app by a push, with the `event_id` of the push. Pushes about messages need no report.
     * @param {string} eventId
     */
    pushOpened(eventId: string): Promise<void>;
    /** Sign in as a new anonymous customer. */
    signInAnonymously(): Promise<Account>;
    /**
     * Have a code sent to a phone. The service knows a customer by their token, so its budget of codes does not refuse them.
     * @param {string} phone
     * @returns {Promise<CodeRequest>}
     */
    requestCode(phone: string): Promise<CodeRequest>;
    /**
     * Sign in with the code that was sent to a phone. An anonymous customer keeps what they have.
     * @param {string} otpRequestId
     * @param {string} code
     */
    verifyCode(otpRequestId: string, code: string): Promise<Account>;
    /**
     * Sign in with an identity provider's token. An anonymous customer keeps what they have.
     * @param {"a" | "b"} provider
     * @param {string} identityToken
     * @param {string | null} [nonce]
     */
    signInWithIdentity(provider: "a" | "b", identityToken: string, nonce?: string | null): Promise<Account>;
    /** Sign out and forget everything on this device, also without a network. */
    signOut(): Promise<void>;
    /**
     * Erase the account, sign out everywhere and forget everything on this device. This can't be undone. The proof is a
     * code to the phone or a new token of the identity; an anonymous customer sends none.
     * @param {EraseBody} [proof]
     * @returns {Promise<void>}
     */
    eraseAccount(proof?: EraseBody): Promise<void>;
    /**
     * Return everything that the service stores of the customer: within 10 minutes after a sign-in, once an hour.
     * @returns {Promise<Export>}
     */
    exportData(): Promise<Export>;
    /**
     * Read the user again.
     * @returns {Promise<Account>}
     */
    refreshUser(): Promise<Account>;
    /**
     * Set the customer's name.
     * @param {string} name
     * @returns {Promise<Account>}
     */
    setDisplayName(name: string): Promise<Account>;
    /**
     * Make a payment request. Repeated with the same body until there is an answer, it is made once.
     * @param {PaymentBody} body
     */
    pay(body: PaymentBody): Promise<PaymentRequest>;
    /**
     * Make a payment request for a mitra of an earlier session.
     * @param {ReturningBody} body
     */
    payReturning(body: ReturningBody): Promise<PaymentRequest>;
    /** @param {string} id */
    readPayment(id: string): Promise<PaymentRequest>;
    /** @param {string} id */
    abandonPayment(id: string): Promise<PaymentRequest>;
    /** @param {string} paymentRequestId */
    cancelSearch(paymentRequestId: string): Promise<PaymentRequest>;
    /**
     * Ask all mitras instead of the one who was chosen.
     * @param {string} paymentRequestId
     */
    fallBackToBlast(paymentRequestId: string): Promise<PaymentRequest>;
    /**
     * Read a session and the end of its transcript into `state.chats`.
     * @param {string} sessionId
     */
    openChat(sessionId: string): Promise<void>;
    /**
     * Read 50 earlier messages of an open chat.
     * @param {string} sessionId
     */
    loadEarlier(sessionId: string): Promise<void>;
    /**
     * Send a message, now or as soon as there is a connection, and return its `clientMessageId`.
     * @param {string} sessionId
     * @param {string} content 1 to 4,000 characters
     * @param {Record<string, unknown> | null} [metadata]
     */
    send(sessionId: string, content: string, metadata?: Record<string, unknown> | null): string;
    /**
     * Send a refused message again.
     * @param {string} clientMessageId
     */
    resend(clientMessageId: string): void;
    /**
     * Give a refused message up.
     * @param {string} clientMessageId
     */
    discard(clientMessageId: string): void;
    /**
     * Mark everything that is shown as read.
     * @param {string} sessionId
     */
    markRead(sessionId: string): void;
    /**
     * Let the other party see that the user types. Call it on each key; it is sent once in 3 s.
     * @param {string} sessionId
     */
    typing(sessionId: string): void;
    /**
     * End a session.
     * @param {string} sessionId
     */
    end(sessionId: string): Promise<Session>;
    /**
     * Write the goodbye.
     * @param {string} sessionId
     * @param {string} message 1 to 1,000 characters
     */
    sayGoodbye(sessionId: string, message: string): Promise<Session>;
    /**
     * Return the signed receipt of a completed session.
     * @param {string} sessionId
     * @returns {Promise<SignedReceipt>}
     */
    receipt(sessionId: string): Promise<SignedReceipt>;
    /**
     * Return whether the service's published keys verify a receipt; null if this platform can't tell.
     * @param {SignedReceipt} receipt
     */
    verifyReceipt(receipt: SignedReceipt): Promise<boolean | null>;
    /**
     * Set whether the topic is sensitive.
     * @param {string} sessionId
     * @param {Sensitivity} sensitivity
     */
    setTopic(sessionId: string, sensitivity: Sensitivity): Promise<Session>;
    /**
     * Make a payment request for more minutes of a session.
     * @param {string} sessionId
     * @param {number} durationMinutes
     * @param {number} [expectedAmount] the price that the customer was shown; another one is refused
     */
    extend(sessionId: string, durationMinutes: number, expectedAmount?: number): Promise<PaymentRequest>;
    /**
     * Answer a customer who asks for more minutes.
     * @param {string} sessionId
     * @param {string} extensionId
     * @param {boolean} accept
     * @returns {Promise<Extension>}
     */
    answerExtension(sessionId: string, extensionId: string, accept: boolean): Promise<Extension>;
    /** Let chat requests come, and send heartbeats. */
    goOnline(): Promise<void>;
    /** Let no more chat requests come. */
    goOffline(): Promise<void>;
    /**
     * Give the library a push that has arrived, also without `start`. Return false if the app has to open what its
     * `action` names. Return true if it was for the app only: a presence check. By then a heartbeat has answered it, or
     * its time is over.
     * @param {Record<string, unknown>} push the data of the push
     * @returns {Promise<boolean>}
     */
    receivePush(push: Record<string, unknown>): Promise<boolean>;
    /**
     * Accept a chat request. The first mitra to accept has the session.
     * @param {string} sessionId
     * @returns {Promise<Session>}
     */
    accept(sessionId: string): Promise<Session>;
    /**
     * Reject a chat request.
     * @param {string} sessionId
     */
    reject(sessionId: string): Promise<void>;
}
/**
 * Make a client. `start` connects it.
 * @param {ClientOptions} options
 */
export declare const createClient: (options: ClientOptions) => Client;
