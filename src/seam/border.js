// The border between Rust and the page's scripts. What crosses it is a list of plain values, as bytes: nothing,
// yes and no, numbers, texts, bytes. What takes time is a job: it has a number, an answer when it is done, and an end if
// nobody waits for it any more.

// As Rust counts them.
const NOTHING = 0;
const NO = 1;
const YES = 2;
const NUMBER = 3;
const TEXT = 4;
const BYTES = 5;

/** Values as bytes: each a tag; then a number, or a length and so many bytes. */
export function pack(values) {
  const parts = values.map((value) => (typeof value === "string" ? new TextEncoder().encode(value) : value));
  const size = parts.reduce((sum, part) => sum + 9 + (part?.length ?? 0), 0);
  const bytes = new Uint8Array(size);
  const view = new DataView(bytes.buffer);
  let at = 0;
  for (const part of parts) {
    if (part == null) {
      bytes[at++] = NOTHING;
    } else if (typeof part === "boolean") {
      bytes[at++] = part ? YES : NO;
    } else if (part.length === undefined) {
      bytes[at] = NUMBER;
      view.setFloat64(at + 1, part, true);
      at += 9;
    } else {
      bytes[at] = BYTES;
      view.setUint32(at + 1, part.length, true);
      bytes.set(part, at + 5);
      at += 5 + part.length;
    }
  }
  return bytes.subarray(0, at);
}

/** The values again, as copies: Rust's own bytes do not last. */
export function unpack(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const values = [];
  for (let at = 0; at < bytes.length; ) {
    const tag = bytes[at++];
    if (tag === NOTHING) {
      values.push(undefined);
    } else if (tag < NUMBER) {
      values.push(tag === YES);
    } else if (tag === NUMBER) {
      values.push(view.getFloat64(at, true));
      at += 8;
    } else {
      const end = at + 4 + view.getUint32(at, true);
      const part = bytes.slice(at + 4, end);
      values.push(tag === TEXT ? new TextDecoder().decode(part) : part);
      at = end;
    }
  }
  return values;
}

/** Jobs by number: how to end each, or its answer. */
const jobs = new Map();
let last = 0;
let rust;

/** Where Rust hears that a job is done: what the module exports. */
export function connect(exports) {
  rust = exports;
}

/** What Rust calls to have `perform` do something; it gets what ends it, and the values. An answer
 * begins with no; a refusal, thrown as { kind, message }, with yes. */
export function asking(perform) {
  return (given) => {
    const job = ++last;
    const leash = new AbortController();
    const done = (answer) => {
      if (!jobs.has(job)) return;
      jobs.set(job, { leash, answer: pack(answer) });
      rust.samekey_run(job);
    };
    jobs.set(job, { leash });
    perform(leash, ...unpack(given)).then(
      (answer) => done([false, ...[answer].flat()]),
      // Anything can be thrown, nothing included.
      (error) => done([true, error?.kind, error?.message]),
    );
    return job;
  };
}

/** The answer, if there is one. It is handed out once. */
export function take(job) {
  const answer = jobs.get(job)?.answer;
  if (answer) jobs.delete(job);
  return answer;
}

/** Nobody waits for this job any more. Job 0: Rust has work to go on with. */
export function note(job) {
  if (!job) queueMicrotask(() => rust.samekey_run(0));
  jobs.get(job)?.leash.abort();
  jobs.delete(job);
}
