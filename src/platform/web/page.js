// What the page does for samekey: one exchange over HTTP, and waiting. Both are { done, stop }: a promise,
// and the end of whatever it waits for.

/** The largest answer that is read. */
const MOST = 1_048_576;
/** What requests that may outlive the page can carry together; the browser refuses above 64 KiB. */
const KEEPALIVE = 61_440;
/** The longest time that a timer can count. */
const FOREVER = 2 ** 31 - 1;

// As Rust counts them.
const [WINDOW_CLOSED, TIMEOUT, UNKNOWN, OPAQUE_REDIRECT] = [1, 2, 3, 4];

let outliving = 0;

export function sleep(wait) {
  let timer;
  const done = new Promise((resolve) => (timer = setTimeout(resolve, Math.min(wait, FOREVER))));
  return { done, stop: () => clearTimeout(timer) };
}

/** Resolves when the browser does not claim to be offline: an attempt that cannot leave is not made. */
const online = (signal) =>
  new Promise((resolve) => {
    if (globalThis.navigator?.onLine === false && globalThis.addEventListener) {
      addEventListener("online", resolve, { once: true, signal });
    } else resolve();
  });

/** The status is known: whatever happens to the body, it is an answer. */
async function read(answer) {
  if (answer.headers.get("content-length") > MOST) return { large: true };
  try {
    const body = new Uint8Array(await answer.arrayBuffer());
    return body.length > MOST ? { large: true } : { body };
  } catch {
    return {};
  }
}

/** Sends once. Redirects are not followed; `limit` bounds it, answer included, and it does not begin after
 * `notAfter`, by the page's clock. */
export function exchange(method, url, lines, sent, credentials, limit, notAfter) {
  const leash = new AbortController();
  const { signal } = leash;
  const parts = lines.split("\n");
  const headers = {};
  for (let i = 0; i + 1 < parts.length; i += 2) headers[parts[i]] = parts[i + 1];
  const body = sent?.length ? sent.slice() : undefined;
  const size = body?.length ?? 0;
  const send = async () => {
    await online(signal);
    if (performance.now() > notAfter) return { failure: WINDOW_CLOSED };
    const keepalive = sent !== undefined && outliving + size <= KEEPALIVE;
    if (keepalive) outliving += size;
    const timer = setTimeout(() => leash.abort(), Math.min(limit, FOREVER));
    try {
      const cache = method === "GET" ? "no-store" : "default";
      const answer = await fetch(url, { method, headers, body, redirect: "manual", credentials, cache, keepalive, signal });
      if (answer.type === "opaqueredirect") return { failure: OPAQUE_REDIRECT };
      return { status: answer.status, lines: [...answer.headers].flat().join("\n"), ...(await read(answer)) };
    } catch (error) {
      return { failure: signal.aborted ? TIMEOUT : UNKNOWN, detail: `${error.name}: ${error.message}` };
    } finally {
      clearTimeout(timer);
      if (keepalive) outliving -= size;
    }
  };
  return { done: send(), stop: () => leash.abort() };
}
