import type { ErrorKind } from "./errors.js";
import type { Grade, Outcome, Progress, State, Summary } from "./types.js";

/** Names for what Rust tells in this order; without the members that are not there, so that a listener may
 * compare or show what it gets. */
const named = (values: any[], ...names: string[]): any =>
  Object.fromEntries(names.map((name, at) => [name, values[at]]).filter(([, value]) => value !== undefined));

// As Rust counts them.
const KINDS: ErrorKind[] = [
  "invalid-request", "invalid-configuration", "journal", "fingerprint-mismatch", "tombstone", "attention", "deferred",
  "not-applied", "held-elsewhere", "body-needed", "body-mismatch", "locked", "other-scope", "origin-not-allowed", "not-found",
  "ambiguous", "ended", "damaged", "previous-unresolved",
];

/** What went wrong, as the bindings tell it. */
export interface Trouble {
  kind: ErrorKind;
  reason?: string;
  message: string;
  reference?: string;
  until?: number;
  attempts?: number;
  unresolved?: boolean;
  nothingWasSent?: boolean;
}

export const trouble = ([kind, ...values]: any[]): Trouble =>
  named([KINDS[kind], ...values], "kind", "reason", "message", "reference", "until", "attempts", "unresolved", "nothingWasSent");

/** Of what cannot be read only so much is known: how it is called, and why. */
const damaged = ([reference, key, damage]: any[]) =>
  [reference, key, "(damaged)", "", "POST", "ready", undefined, 0, 0, true, true, undefined, undefined, damage];

export const summary = (values: any[], grade: Grade): Summary => ({
  ...named(
    values.length > 3 ? values : damaged(values), "reference", "key", "intent", "url", "method", "state", "reason", "attempts", "begunAt", "maybeApplied",
    "unfinished", "until", "last", "damage",
  ),
  grade,
});

export function outcome(values: any[]): Outcome {
  const [state, status, body, provenance, attempts, answeredAt, reference, key, recorded, note, ...lines] = values;
  const headers = new Headers();
  for (let i = 0; i < lines.length; i += 2) headers.append(lines[i], lines[i + 1]);
  const text = () => (body ? new TextDecoder().decode(body) : undefined);
  return {
    state: state as State, status, body, provenance, attempts, reference, key, recorded, note,
    ok: state === "succeeded",
    headers,
    answeredAt: new Date(answeredAt),
    text,
    json: () => (body ? JSON.parse(text()!) : undefined),
  } as Outcome;
}

export function progress(values: any[]): Progress {
  const step = named(values, "state", "attempt", "wait", "reason", "until");
  if (step.state === "sending" && globalThis.navigator?.onLine === false) step.state = "offline";
  if (step.state === "waiting") step.until = Date.now() + step.wait;
  return step;
}
