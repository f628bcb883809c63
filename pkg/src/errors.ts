import type { Trouble } from "./told.js";

export type ErrorKind =
  | "invalid-request" | "invalid-configuration" | "journal" | "fingerprint-mismatch" | "tombstone"
  | "attention" | "deferred" | "not-applied" | "held-elsewhere" | "body-needed" | "body-mismatch" | "locked"
  | "other-scope" | "origin-not-allowed" | "not-found" | "ambiguous" | "ended" | "damaged" | "previous-unresolved"
  | "aborted" | "module";

/** What went wrong, then what to do. */
export class SamekeyError extends Error {
  declare readonly kind: ErrorKind;
  /** For `attention`, `journal` and `ended`: what is the matter, such as `window-closed` or `full`. */
  declare readonly reason: string | undefined;
  /** Keep it, and show it to the user. */
  declare readonly reference: string | undefined;
  declare readonly attempts: number;
  /** It may have happened and it may not: do not start a new action. */
  declare readonly unresolved: boolean;
  /** Certain: not one attempt can have reached a server. */
  declare readonly nothingWasSent: boolean;
  /** For `deferred`: when it goes on. */
  declare readonly until: Date | undefined;

  constructor({ message, reference, until, attempts = 0, unresolved = false, nothingWasSent = true, ...raw }: Trouble) {
    super(reference ? `${message} (reference ${reference})` : message);
    const name = raw.kind === "aborted" ? "AbortError" : "SamekeyError";
    Object.assign(this, raw, { name, reference, attempts, unresolved, nothingWasSent }, until !== undefined && { until: new Date(until) });
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
