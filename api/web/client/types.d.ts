/** Types of the library that are not the service's. Those of the service are in `wire.d.ts`. */

import type {
  CauseTag,
  ChatRequest,
  Customer,
  Extension,
  Message,
  Mitra,
  MitraStatus,
  PaymentRequest,
  Person,
  Routes,
  ServerFrame,
  Session,
} from "./wire.d.ts";
import type { SesiError } from "./errors.js";

export type * from "./wire.d.ts";

export type Role = "customer" | "mitra";
export type Locale = "id" | "en";
/** The signed-in user. */
export type Account = Customer | Mitra;

/** Where the library keeps tokens and unsent messages. Values are text. */
export interface StoragePort {
  get(key: string): Promise<string | null>;
  set(key: string, value: string): Promise<void>;
  remove(key: string): Promise<void>;
}

export interface HttpRequest {
  method: string;
  url: string;
  headers: Record<string, string>;
  body: string | null;
}

export interface HttpAnswer {
  status: number;
  /** Return a header of the answer, or null. */
  header(name: string): string | null;
  text: string;
}

export interface SocketEvents {
  opened(): void;
  received(text: string): void;
  /**
   * The socket is closed, or could not be opened. `code` is null for a lost connection. `retryAfterSeconds` comes from
   * the headers of a refused upgrade, where the platform shows them.
   */
  closed(code: number | null, retryAfterSeconds?: number | null): void;
}

export interface SocketPort {
  send(text: string): void;
  close(): void;
}

export interface TimePort {
  /** Milliseconds since 1970 by the device's calendar, used only before the first answer of the service. */
  wall(): number;
  /** Milliseconds that never go backwards. */
  mono(): number;
  /** A random number from 0 up to but not including 1. */
  random(): number;
  /** Run `callback` once in `ms` milliseconds. Return a handle for `cancel`. */
  after(ms: number, callback: () => void): unknown;
  /** Cancel a timer; null and the handles of past timers are ignored. */
  cancel(timer: unknown): void;
  /** Run `callback` every `ms` milliseconds, also while the page is hidden. Return a function that ends it. */
  every(ms: number, callback: () => void): () => void;
}

export interface PagePort {
  /** Whether the app is in the background. */
  hidden(): boolean;
  /** Report when the app comes to the front and when the network is back. Return a function that ends it. */
  listen(listener: (change: "visible" | "online") => void): () => void;
}

/** The world of the library. Each port has a default for browsers and Node, and for React Native. */
export interface Ports {
  open(url: string, events: SocketEvents): SocketPort;
  /** Send a request. Rejects when there was no answer. */
  fetch(request: HttpRequest): Promise<HttpAnswer>;
  time: TimePort;
  /** Return a new random UUID in lower case. */
  id(): string;
  /** Run `work` while no other tab holds the lock `name`, or after `timeoutMs` without it. */
  lock<T>(name: string, timeoutMs: number, work: () => Promise<T>): Promise<T>;
  /** Return the SHA-256 hash of bytes. Null where the platform has none: then no digest is compared. */
  sha256: ((bytes: Uint8Array<ArrayBuffer>) => Promise<Uint8Array<ArrayBuffer>>) | null;
  page: PagePort;
}

export interface ClientOptions {
  role: Role;
  /** Base address of the public listener, such as `https://api.example.com`. */
  api: string;
  /** Base address of the sockets, such as `wss://sockets.example.com`. */
  sockets: string;
  /** Default: IndexedDB in browsers; the modules of `native` in React Native. */
  storage?: StoragePort;
  /** Language of error messages and pushes. Default: `id`. */
  locale?: Locale;
  /** Shown in the user's list of devices. */
  platform?: string;
  appVersion?: string;
  ports?: Partial<Ports>;
}

/** The options with what the entry of a platform adds. */
export type DeviceOptions = ClientOptions & { storage: StoragePort; ports: Ports };

/** What React Native lacks, as the modules of these names have it. */
export interface NativeModules {
  /** `expo-crypto`. Without `digest` no digest is compared. */
  Crypto: {
    getRandomValues(bytes: Uint8Array<ArrayBuffer>): unknown;
    digest?(algorithm: string, bytes: Uint8Array<ArrayBuffer>): Promise<ArrayBuffer>;
  };
  /** `expo-secure-store`, for the tokens. */
  SecureStore: {
    getItemAsync(key: string): Promise<string | null>;
    setItemAsync(key: string, value: string, options: { keychainAccessible?: number | undefined }): Promise<void>;
    deleteItemAsync(key: string): Promise<void>;
    AFTER_FIRST_UNLOCK?: number;
  };
  /** `@react-native-async-storage/async-storage`, for unsent messages, which are too long for a secure store. */
  AsyncStorage: {
    getItem(key: string): Promise<string | null>;
    setItem(key: string, value: string): Promise<void>;
    removeItem(key: string): Promise<void>;
  };
  /** `@react-native-community/netinfo`. */
  NetInfo: {
    addEventListener(listener: (state: { type: string; isConnected: boolean | null }) => void): () => void;
  };
}

/** The options of `createClient` in React Native. */
export type NativeOptions = ClientOptions & { native: NativeModules };

export interface CallOptions {
  path?: Record<string, string> | undefined;
  query?: object | undefined;
  body?: object | undefined;
  idempotencyKey?: string | undefined;
  /** Fields that the answer must have; without them it is not the service's. */
  fields?: string[] | undefined;
}

/** What `Client.call` takes for a route, besides its name. */
export type RouteOptions<R extends keyof Routes> = Omit<Routes[R], "answer" | "idempotent" | "query"> &
  Partial<Pick<Routes[R], Extract<keyof Routes[R], "query">>> & { idempotencyKey?: string };
export type RouteArguments<R extends keyof Routes> =
  Record<never, never> extends RouteOptions<R> ? [options?: RouteOptions<R>] : [options: RouteOptions<R>];

/** A message as an app shows it. */
export interface ShownMessage {
  clientMessageId: string;
  /** Null until the service has stored the message. */
  id: string | null;
  seq: number | null;
  /** Whether the user of this device sent it. */
  own: boolean;
  content: string;
  metadata: Message["metadata"];
  /** Whether the service has removed the text for good; then `content` is empty. */
  blanked: boolean;
  createdAt: string | null;
  state: "sending" | "sent" | "delivered" | "read" | "refused";
  /** Why it was refused. */
  error: SesiError | null;
}

export interface Chat {
  session: Session;
  /** The extension that was asked last, if this device knows of one. */
  extension: Extension | null;
  /** In the order of `seq`, without holes; unsent messages come last. */
  messages: readonly ShownMessage[];
  /** Whether `loadEarlier` finds more. */
  hasEarlier: boolean;
  unread: number;
  /** Until when the other party counts as typing: milliseconds by the service's clock. Null again from then on. */
  typingUntil: number | null;
  /** The newest time that was given back to the session, as this device was told; null if none was. */
  credit: { addedSeconds: number; reason: "database" | "realtime" | "mitra_absent" } | null;
  /**
   * How the messages compare with the service's digest of them: the last `sync` found them equal, or different also
   * after they were read again. `unchecked`: the transcript's beginning is not loaded, or the platform has no SHA-256.
   */
  digest: "unchecked" | "equal" | "different";
  /** Since when the other party has been away; null if they are not, or if the service does not look for it. */
  peer: { readonly absent: string | null };
  /** Whether the warning came that three minutes are left. */
  warned: boolean;
}

/** How a search ended. */
export interface SearchEnd {
  status: "paired" | "failed" | "cancelled";
  session_id: string | null;
  payment_request_id: string;
  cause_tag?: CauseTag | null | undefined;
  mitra?: Person | null | undefined;
}

/** A chat request that this mitra can no longer answer, and why. */
export interface ClosedRequest {
  session_id: string;
  reason: string;
}

/** What an app shows. A new object after each change. */
export interface State {
  /** `open`: both sockets are authenticated. */
  connection: "stopped" | "connecting" | "open";
  user: Account | null;
  /** Why the user must sign in again: they signed out, the auth session was ended, or its token is not valid. */
  signedOut: null | "self" | "revoked" | "expired";
  /** False when the device's storage failed: tokens and unsent messages end with the page. */
  saved: boolean;
  /** Running sessions and those that were opened, by session id. */
  chats: Readonly<Record<string, Chat>>;
  /** Customer: the session that searches. */
  search: Session | null;
  /** Customer: how the last search ended. */
  searchEnd: SearchEnd | null;
  /** Customer: payment requests that were made, read or reported, by id. */
  payments: Readonly<Record<string, PaymentRequest>>;
  /** Mitra: open chat requests. */
  requests: readonly ChatRequest[];
  /** Mitra: the newest 20 requests that were closed, newest first. */
  closedRequests: readonly ClosedRequest[];
  /** Mitra. */
  status: MitraStatus | null;
  /** Mitra: why they are offline, as in `mitra_status_changed`. */
  statusReason: string | null;
}

/**
 * Not a frame of the service, but listeners get it like one: the messages of a session differ from its digest, also after
 * they were read again. Both digests are up to `seq`, in hex.
 */
export interface DigestMismatch {
  type: "digest_mismatch";
  session_id: string;
  seq: number;
  expected: string;
  found: string;
}

export type FrameListener = (frame: ServerFrame) => void;
