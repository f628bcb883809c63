// What the page does for samekey: one exchange over HTTP, and waiting.
import { asking } from "../../seam/border.js";

/** The largest answer that is read. */
const MOST = 1_048_576;
/** What requests that may outlive the page can carry together; the browser refuses above 64 KiB. */
const KEEPALIVE = 61_440;
/** The longest time that a timer can count. */
const FOREVER = 2 ** 31 - 1;

// As Rust counts them.
const ANSWERED = 0;
const WINDOW_CLOSED = 1;
const TIMEOUT = 2;
const UNKNOWN = 3;
const OPAQUE_REDIRECT = 4;
const BAD_HEAD = 5;
const UNSENDABLE = 6;

let outliving = 0;

export const sleep = ({ signal }, wait) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, Math.min(wait, FOREVER));
    signal.onabort = () => clearTimeout(timer);
  });

/** Resolves when the browser does not claim to be offline: an attempt that cannot leave is not made. */
const online = (signal) =>
  new Promise((resolve) => {
    if (globalThis.navigator?.onLine === false && globalThis.addEventListener) {
      addEventListener("online", resolve, { once: true, signal });
    } else resolve();
  });

/**
 * All that came of an answer: status, body if it is whole, whether it is too large, header lines. Over plain HTTP Chromium
 * takes a head that was cut anywhere for a whole one: fewer headers, no body, no error, and a 200 where not even the
 * status came. Only an answer of the page's own origin shows all it has.
 */
async function read(answer) {
  const { headers, status, type } = answer;
  const length = headers.get("content-length");
  const told = (body, large = false) => [ANSWERED, status, body, large, ...[...headers].flat()];
  if (length > MOST) return told(undefined, true);
  let body;
  try {
    body = new Uint8Array(await answer.arrayBuffer());
  } catch {
    // The status is known: whatever happens to the body, it is an answer.
    return told();
  }
  if (body.length > MOST) return told(undefined, true);
  if (type !== "basic" || status === 204 || status === 205) return told(body);
  const bare = ![...headers].length && !body.length;
  if (bare && status === 200) return BAD_HEAD;
  const short = length !== null && !headers.has("content-encoding") && Number(length) !== body.length;
  return told(bare || short ? undefined : body);
}

/** Sends once. Redirects are not followed; `limit` bounds it, answer included, and it does not begin after
 * `notAfter`, by the page's clock. */
export async function exchange(leash, method, url, sent, credentials, limit, notAfter, ...lines) {
  const { signal } = leash;
  const headers = new Headers();
  try {
    for (let i = 0; i < lines.length; i += 2) headers.append(lines[i], lines[i + 1]);
  } catch {
    return UNSENDABLE;
  }
  const body = sent?.length ? sent : undefined;
  const size = body?.length ?? 0;
  // Of two clocks the later counts: one may stand still while the machine sleeps, the other may be set back.
  const ahead = Date.now() - performance.now();
  await online(signal);
  if (Math.max(performance.now(), Date.now() - ahead) > notAfter) return WINDOW_CLOSED;
  const keepalive = sent !== undefined && outliving + size <= KEEPALIVE;
  if (keepalive) outliving += size;
  const timer = setTimeout(() => leash.abort(), Math.min(limit, FOREVER));
  try {
    const cache = method === "GET" ? "no-store" : "default";
    const answer = await fetch(url, { method, headers, body, redirect: "manual", credentials, cache, keepalive, signal });
    if (answer.type === "opaqueredirect") return OPAQUE_REDIRECT;
    return await read(answer);
  } catch (error) {
    return [signal.aborted ? TIMEOUT : UNKNOWN, `${error.name}: ${error.message}`];
  } finally {
    clearTimeout(timer);
    if (keepalive) outliving -= size;
  }
}

const doers = { sleep, exchange };

export const ask = /* @__PURE__ */ asking((leash, what, ...values) => doers[what](leash, ...values));

/** 16 bytes that nobody can guess, if the browser has any. */
export function random() {
  try {
    return crypto.getRandomValues(new Uint8Array(16));
  } catch {
    return undefined;
  }
}
