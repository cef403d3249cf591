import { Account } from "./account.js";
import { Chats } from "./chats.js";
import { EphemeralFrames } from "./ephemeral_frames.js";
import { Feed } from "./feed.js";
import { Outbox } from "./outbox.js";
import { Payments } from "./payments.js";
import { Presence } from "./presence.js";
import { Requests } from "./requests.js";
import { Rest } from "./rest.js";
import { Search } from "./search.js";
import { ServiceClock } from "./service_clock.js";
import { Connection } from "./socket.js";
import { Values } from "./storage.js";
import { Store } from "./store.js";
import { Sync } from "./sync.js";
import { Tokens } from "./tokens.js";
import type { Account as User, ClientOptions, FrameListener } from "./types.d.ts";
/** The parts of the library, put together: who gets which frame, and what a sign-in and its end change. */
export declare class Device extends Store {
    #private;
    role: import("./types.d.ts").Role;
    locale: import("./types.d.ts").Locale;
    ports: {
        open: (url: string, events: import("./types.d.ts").SocketEvents) => import("./types.d.ts").SocketPort;
        fetch: (request: import("./types.d.ts").HttpRequest) => Promise<import("./types.d.ts").HttpAnswer>;
        time: import("./types.d.ts").TimePort;
        id: () => string;
        lock: <T>(name: string, timeoutMs: number, work: () => Promise<T>) => Promise<T>;
        sha256: ((bytes: Uint8Array<ArrayBuffer>) => Promise<Uint8Array<ArrayBuffer>>) | null;
        page: import("./types.d.ts").PagePort;
    };
    clock: ServiceClock;
    values: Values;
    rest: Rest;
    tokens: Tokens;
    account: Account;
    outbox: Outbox;
    chats: Chats;
    sync: Sync;
    ephemeral: EphemeralFrames;
    payments: Payments;
    search: Search;
    requests: Requests;
    presence: Presence;
    chat: Connection;
    pairing: Connection;
    feed: Feed;
    /** @type {Set<FrameListener>} */
    listeners: Set<FrameListener>;
    isStarted: boolean;
    /** @param {ClientOptions} options */
    constructor({ role, api, sockets, storage, locale, timeScale, platform, appVersion, ports }: ClientOptions);
    /** Read the stored sign-in, and connect if there is one. */
    start(): Promise<void>;
    /** Disconnect, and keep the stored sign-in. */
    stop(): void;
    /**
     * Store and show a changed user.
     * @param {User} user
     */
    setUser(user: User): Promise<User>;
    /**
     * Use the tokens of a user who has signed in.
     * @param {User} user
     */
    began(user: User): Promise<void>;
    /**
     * Forget the user and everything of theirs. It is shown when it is stored: a page that is closed then must not find
     * the tokens again.
     * @param {"self" | "revoked" | "expired"} reason
     */
    ended(reason: "self" | "revoked" | "expired"): Promise<void>;
    /** Show the state of both sockets as one. */
    showConnection(): void;
    /**
     * Handle an `auth_ok`.
     * @param {"chat" | "pairing"} path
     * @param {any} frame
     * @param {boolean} isNew whether it is the first one of a socket
     */
    authenticated(path: "chat" | "pairing", frame: any, isNew: boolean): void;
    /**
     * Handle any other frame, and acknowledge it if it is an event.
     * @param {"chat" | "pairing"} path
     * @param {any} frame
     */
    received(path: "chat" | "pairing", frame: any): void;
    /**
     * Give a frame to the listeners of the app.
     * @param {any} frame
     */
    emit(frame: any): void;
}
