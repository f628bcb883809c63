import type { Trouble } from "./told.js";

export type ErrorKind =
  | "invalid-request" | "invalid-configuration" | "journal" | "fingerprint-mismatch" | "tombstone"
  | "attention" | "deferred" | "not-applied" | "held-elsewhere" | "body-needed" | "body-mismatch" | "locked"
  | "other-scope" | "origin-not-allowed" | "not-found" | "ambiguous" | "ended" | "damaged" | "previous-unresolved"
  | "aborted" | "module";

/** What went wrong, then what to do. */
export class SamekeyError extends Error {
  readonly kind: ErrorKind;
  /** For `attention`, `journal` and `ended`: what is the matter, such as `window-closed` or `full`. */
  readonly reason: string | undefined;
  /** Keep it, and show it to the user. */
  readonly reference: string | undefined;
  readonly attempts: number;
  /** It may have happened and it may not: do not start a new action. */
  readonly unresolved: boolean;
  /** Certain: not one attempt can have reached a server. */
  readonly nothingWasSent: boolean;
  /** For `deferred`: when it goes on. */
  readonly until: Date | undefined;

  constructor(raw: Trouble) {
    super(raw.message);
    this.kind = raw.kind as ErrorKind;
    this.name = this.kind === "aborted" ? "AbortError" : "SamekeyError";
    this.reason = raw.reason;
    this.reference = raw.reference;
    this.attempts = raw.attempts ?? 0;
    this.unresolved = raw.unresolved ?? false;
    this.nothingWasSent = raw.nothingWasSent ?? true;
    this.until = raw.until === undefined ? undefined : new Date(raw.until);
  }
}

/** A callback of the page: what it throws is the page's own trouble, and must not stop a payment. */
export function call<Given extends unknown[]>(callback: ((...given: Given) => void) | undefined, ...given: Given): void {
  try {
    callback?.(...given);
  } catch (error) {
    (globalThis.reportError ?? console.error)(error);
  }
}
