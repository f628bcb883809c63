/** A value that JSON can hold. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json | undefined };

/** What an acknowledged write survives: a power cut, the death of the browser, a reload, nothing. */
export type Grade = "device" | "process" | "reload" | "none";

/** How often and how long to try; times in milliseconds. What is left out keeps its default. */
export interface Policy {
  /** Attempts, the first included. Default 6. */
  maxAttempts?: number;
  /** The first wait. Default 500. */
  base?: number;
  /** The longest wait between attempts. Default 20,000. */
  cap?: number;
  /** How long one attempt may take. Default 10,000. */
  attemptTimeout?: number;
  /** How long `send` tries in all. Default 120,000. */
  giveUpAfter?: number;
  /** A server that asks for a longer wait than this gets it in the background. Default 30,000. */
  deferAbove?: number;
}

/** What credentials are asked for. */
export interface Asked {
  origin: string;
  scope: string;
  /** The server refused the last ones: a cached token will not do. */
  refresh: boolean;
}

/** Credentials as header lines, asked for at every attempt and written down nowhere. */
export type Credentials = (asked: Asked) => Record<string, string> | Promise<Record<string, string>>;

/** What the page shows before the server has answered, by name, so that a reload can show it again. */
export interface Effect<Args extends Json = Json> {
  /** Show it. Called again after a reload, as long as the operation is open. */
  apply(args: Args, about: Pending): void;
  /** It happened. */
  confirm?(args: Args, about: Pending): void;
  /** It was rejected or abandoned: take it back. Never called while the outcome is unknown. */
  revert(args: Args, about: Pending): void;
}

/** The operation behind an effect. */
export interface Pending {
  reference: string;
  intent: string;
  /** Where it stands; `attention` means that the outcome is not known. */
  state: State;
}

export interface ClientOptions {
  /** Names the journal: 1 to 64 letters, digits, dots, dashes or underscores. */
  application: string;
  /** Who is signed in: an account or user id, never a secret. */
  scope?: string;
  /** Where keys are kept. Default `indexeddb`; `localstorage` is for one tab and loses the latest
   * entries when the browser is killed; `memory` forgets all at a reload. */
  store?: "indexeddb" | "localstorage" | "memory";
  /** Use localStorage where the browser refuses IndexedDB. Look at `client.grade` then. */
  fallback?: boolean;
  policy?: Policy;
  /** How the server speaks the contract: `default`, `ietf_draft`, `stripe`, ... */
  profile?: string;
  /** Only these origins may be sent to. Default: all. */
  allowOrigins?: readonly string[];
  /** Headers, besides the usual ones, that the journal may keep. Never credentials. */
  keepHeaders?: readonly string[];
  /** `false`: the journal keeps fingerprints only, and a resume needs the request again. */
  keepBodies?: boolean;
  /** Which requests carry the site's cookies. Default `same-origin`. */
  cookies?: "same-origin" | "include" | "omit";
  credentials?: Credentials;
  /** What `optimistic` names. */
  effects?: Record<string, Effect<any>>;
}

interface RequestBase {
  /** Relative URLs are resolved against the page. */
  url: string;
  method?: "POST" | "PATCH" | "PUT" | "DELETE";
  /** Header lines that are frozen with the request; credentials do not belong here. */
  headers?: Record<string, string>;
  /** How long the server remembers the key, in milliseconds, if known better than by the profile. */
  window?: number;
  /** A key that came in from elsewhere. */
  adoptKey?: string;
  /** Send the key with a PUT or DELETE too. */
  withKey?: boolean;
  profile?: string;
  /**
   * What every success of your server has. One without it was cut short on the way: it settles nothing,
   * and is asked for again under the same key, now and after a reload. Default: the status is enough.
   */
  complete?: "body" | { header: string };
  /** What to show meanwhile: a name from `effects`, and small arguments. */
  optimistic?: { effect: string; args?: Json };
}

/** A request: with JSON, frozen with sorted member names, or with bytes as they are. */
export type OperationRequest =
  | (RequestBase & { json: unknown; body?: never })
  | (RequestBase & { body: Uint8Array | string; contentType: string; json?: never })
  | (RequestBase & { json?: never; body?: never });

export type State =
  | "ready" | "sending" | "waiting" | "polling" | "deferred"
  | "succeeded" | "rejected" | "attention" | "abandoned";

/** One step of an operation, to be shown. */
export type Progress =
  | { state: "sending"; attempt: number }
  | { state: "offline"; attempt: number }
  | { state: "waiting"; attempt: number; wait: number; until: number; reason: string }
  | { state: "polling" }
  | { state: "joined" }
  | { state: "deferred"; until: number }
  | { state: "attention"; reason: string }
  | { state: "succeeded" | "rejected" | "abandoned" };

/** Progress together with whose it is. `here` is false if another tab reports it. */
export type Notice = Progress & { reference: string; intent: string; here: boolean };

export interface SendOptions {
  onProgress?: (progress: Progress) => void;
  /** Lets the operation go, as if the page had been left: it stays resumable. To stop it for good,
   * call `cancel`. */
  signal?: AbortSignal;
}

interface Answer {
  status: number;
  headers: Headers;
  /** The answer's bytes, if all of them are here. */
  body: Uint8Array | undefined;
  /** `fresh`; `replayed` by the server; `recovered` from an earlier page; settled `by hand`. */
  provenance: "fresh" | "replayed" | "recovered" | "by hand";
  attempts: number;
  answeredAt: Date;
  reference: string;
  key: string;
  /** Whether the journal has it. */
  recorded: boolean;
  note: string | undefined;
  text(): string | undefined;
  json<T = unknown>(): T | undefined;
}

/** The server's final word. A refusal is an outcome, not an error. */
export type Outcome =
  | (Answer & { state: "succeeded"; ok: true })
  | (Answer & { state: "rejected"; ok: false })
  | (Answer & { state: "abandoned"; ok: false });

/** What the journal says of an operation. */
export interface Summary {
  reference: string;
  key: string;
  intent: string;
  url: string;
  method: string;
  state: State;
  /** Why it needs attention. */
  reason?: string;
  attempts: number;
  begunAt: number;
  maybeApplied: boolean;
  unfinished: boolean;
  grade: Grade;
  until?: number;
  /** How the last attempt ended. */
  last?: string;
  /** What is wrong with its bytes. */
  damage?: string;
}
