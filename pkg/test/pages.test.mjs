// Pages that are not like the others: callbacks that throw, neighbours, policies, frames, workers, clocks.
import assert from "node:assert/strict";
import { test } from "node:test";
import { openClient, stage, until } from "./harness.mjs";

const LIMIT = { timeout: 90_000 };
const QUICK = { base: 120, cap: 400, attemptTimeout: 5_000 };
const TEA = { url: "/api/orders", json: { item: "tea" } };

/** Opens a client in the page; what comes of it as plain values. */
const opened = (page, options = {}) =>
  page.evaluate(async (options) => {
    const { Client } = await import("/dist/index.js");
    const answer = await Client.open({ application: "shop", ...options }).catch((error) => error);
    if (answer instanceof Client) window.client = answer;
    const { grade, kind, reason, nothingWasSent } = answer;
    return answer instanceof Client ? { grade } : { kind, reason, nothingWasSent };
  }, options);

test("callbacks that throw stop no payment and hide no outcome", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    page.removeAllListeners("pageerror");
    const seen = await page.evaluate(
      async ({ tea, policy }) => {
        const { Client } = await import("/dist/index.js");
        const calls = [];
        const throws = (name) => () => {
          calls.push(name);
          throw new Error(`${name} is broken`);
        };
        const row = { apply: throws("apply"), confirm: throws("confirm"), revert: throws("revert") };
        const client = await Client.open({ application: "shop", effects: { row }, policy });
        client.subscribe(throws("subscribe"));
        const heard = [];
        client.subscribe(({ state }) => heard.push(state));
        const operation = await client.operation("cart/1", { ...tea, optimistic: { effect: "row" } });
        const { state } = await operation.send({ onProgress: throws("onProgress") });
        const left = await client.operation("cart/2", { ...tea, optimistic: { effect: "row" } });
        const resumed = await client.resumeAll({ onResume: throws("onResume") });
        const gone = await client.operation("cart/3", tea);
        const cancelled = await gone.cancel();
        const ends = resumed.map(({ outcome }) => [outcome?.reference === left.reference, outcome?.state]);
        return { state, ends, cancelled, heard: heard.includes("succeeded"), calls: [...new Set(calls)].sort() };
      },
      { tea: TEA, policy: QUICK },
    );
    assert.deepEqual(seen, {
      state: "succeeded",
      ends: [[true, "succeeded"]],
      cancelled: "abandoned",
      heard: true,
      calls: ["apply", "confirm", "onProgress", "onResume", "subscribe"],
    });
    assert.equal((await mock.ledger()).effects.length, 2);
  }),
);

test("applications of one origin share nothing, however alike their names are", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    const seen = await page.evaluate(async (tea) => {
      const { Client } = await import("/dist/index.js");
      const effects = { row: { apply() {}, revert() {} } };
      const states = [];
      for (const application of ["shop", "shop-notes", "shop-notes-notes"]) {
        const client = await Client.open({ application, effects });
        const operation = await client.operation("cart/1", { ...tea, optimistic: { effect: "row" } });
        states.push((await operation.send()).state, (await client.list()).length);
      }
      return states;
    }, TEA);
    assert.deepEqual(seen, ["succeeded", 1, "succeeded", 1, "succeeded", 1]);
    assert.equal((await mock.ledger()).keys.length, 3);
  }),
);

test("what is shown meanwhile survives a connection that the browser closed, and an item that cannot be read", LIMIT, () =>
  stage(async ({ page: open }) => {
    const page = await open();
    await page.addInitScript(() => {
      window.connections = [];
      const opening = IDBFactory.prototype.open;
      IDBFactory.prototype.open = function (...asked) {
        const request = opening.apply(this, asked);
        request.addEventListener("success", () => connections.push(request.result));
        return request;
      };
    });
    await page.reload();
    const calls = await page.evaluate(async (tea) => {
      const { Client } = await import("/dist/index.js");
      const calls = [];
      const effects = { row: { apply: () => calls.push("apply"), confirm: () => calls.push("confirm"), revert() {} } };
      for (const store of ["indexeddb", "localstorage"]) {
        const client = await Client.open({ application: "shop", store, effects });
        connections.forEach((connection) => connection.close());
        const operation = await client.operation("cart/1", { ...tea, optimistic: { effect: "row" } });
        connections.forEach((connection) => connection.close());
        await operation.send();
      }
      const client = await Client.open({ application: "shop", store: "localstorage", effects });
      await client.operation("cart/2", { ...tea, optimistic: { effect: "row" } });
      const note = Object.keys(localStorage).find((item) => localStorage.getItem(item).includes("effect"));
      localStorage.setItem(note, localStorage.getItem(note).slice(1));
      await Client.open({ application: "shop", store: "localstorage", effects });
      return calls;
    }, TEA);
    assert.deepEqual(calls, ["apply", "confirm", "apply", "confirm", "apply"]);
  }),
);

test("a module that cannot be loaded is a typed error, and the next try may succeed", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    const refused = { kind: "module", reason: undefined, nothingWasSent: true };
    await page.route("**/*.lzma", (route) => route.fulfill({ status: 404, body: "not here" }));
    assert.deepEqual(await opened(page), refused);
    await page.unroute("**/*.lzma");
    assert.deepEqual(await opened(page), { grade: "device" });
    assert.equal((await mock.posts()).length, 0);
  }),
);

const under = (site, policy) => `${site.url}/strict?${new URLSearchParams({ policy })}`;

test("a Content-Security-Policy without 'wasm-unsafe-eval' is a typed error, with it all is well", LIMIT, () =>
  stage(async ({ site, browser }) => {
    const page = await browser.page(under(site, "script-src 'self'"));
    assert.deepEqual(await opened(page), { kind: "module", reason: undefined, nothingWasSent: true });
    await page.goto(under(site, "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'"));
    assert.deepEqual(await opened(page), { grade: "device" });
    const state = await page.evaluate(async (tea) => (await (await client.operation("cart/1", tea)).send()).state, TEA);
    assert.equal(state, "succeeded");
  }),
);

test("a Content-Security-Policy that keeps the server out: nothing is sent, and nothing is called a failure", LIMIT, () =>
  stage(async ({ mock, site, browser }) => {
    const page = await browser.page(under(site, "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'"));
    await openClient(page, { policy: { ...QUICK, maxAttempts: 2 } });
    const refused = await page.evaluate(
      async (url) => {
        const operation = await client.operation("cart/1", { url, json: {} });
        const { kind, unresolved } = await operation.send().catch((error) => error);
        return { kind, unresolved };
      },
      `${mock.url}/orders`,
    );
    assert.deepEqual(refused, { kind: "attention", unresolved: true });
    assert.equal((await mock.posts()).length, 0);
  }),
);

test("a frame without storage is refused before anything is sent", LIMIT, () =>
  stage(async ({ mock, site, page: open }) => {
    const page = await open();
    await page.evaluate((script) => {
      window.told = new Promise((resolve) => addEventListener("message", ({ data }) => resolve(data)));
      const frame = document.createElement("iframe");
      // Of an origin of its own, which keeps nothing: nothing here is simulated.
      frame.sandbox = "allow-scripts";
      frame.srcdoc = `<script type="module">
        const { Client } = await import("${script}");
        const told = [];
        for (const options of [{}, { store: "localstorage" }, { fallback: true }, { store: "memory" }]) {
          const answer = await Client.open({ application: "shop", ...options }).catch((error) => error);
          told.push([answer.kind, answer.reason, answer.nothingWasSent, answer.grade].map(String));
        }
        parent.postMessage(told, "*");
      </script>`;
      document.body.append(frame);
    }, `${site.url}/dist/index.js`);
    const refused = ["journal", "unavailable", "true", "undefined"];
    const memory = ["undefined", "undefined", "undefined", "none"];
    assert.deepEqual(await page.evaluate(() => told), [refused, refused, refused, memory]);
    assert.equal((await mock.posts()).length, 0);
  }),
);

test("a service worker that answers with its offline page is not the server", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    await page.evaluate(async () => {
      await navigator.serviceWorker.register("/worker.js");
      await navigator.serviceWorker.ready;
    });
    await page.reload();
    await until(() => page.evaluate(() => Boolean(navigator.serviceWorker.controller)), "the worker");
    await openClient(page, { policy: QUICK });
    const seen = await page.evaluate(async (tea) => {
      const operation = await client.operation("cart/1", tea);
      const { kind, unresolved } = await operation.send().catch((error) => error);
      const [worker] = await navigator.serviceWorker.getRegistrations();
      navigator.serviceWorker.controller.postMessage("be online");
      await new Promise((resolve) => navigator.serviceWorker.addEventListener("message", resolve, { once: true }));
      const { state } = await operation.resume();
      await worker.unregister();
      return { kind, unresolved, state };
    }, TEA);
    assert.deepEqual(seen, { kind: "attention", unresolved: true, state: "succeeded" });
    assert.equal((await mock.ledger()).effects.length, 1);
  }),
);

test("a person's resume takes up what needs attention, a send and a sweep leave it alone", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    await openClient(page, { policy: QUICK });
    await mock.fault("redirect-same:307*1");
    const seen = await page.evaluate(async (tea) => {
      const operation = await client.operation("cart/1", tea);
      const kinds = [];
      for (let i = 0; i < 2; i++) kinds.push((await operation.send().catch((error) => error)).reason);
      kinds.push((await client.resumeAll()).length);
      return [...kinds, (await operation.resume()).state];
    }, TEA);
    assert.deepEqual(seen, ["redirected", "redirected", 0, "succeeded"]);
    assert.equal((await mock.ledger()).effects.length, 1);
  }),
);

test("away and back, with the browser's own memory of pages: it goes on under the same key", LIMIT, () =>
  stage(async ({ mock, site, browser }) => {
    await mock.fault("status:503*1");
    const page = await browser.page(`${site.url}/test/away.html`);
    await until(() => page.evaluate(() => window.steps?.includes("waiting")), "the wait");
    await page.goto(`${site.url}/`);
    await page.goBack();
    await until(() => page.evaluate(() => window.steps?.includes("succeeded")), "the end");
    const { effects, keys } = await mock.ledger();
    assert.deepEqual([effects.length, keys.length], [1, 1]);
  }),
);

test("a clock that is ahead, as after a sleep, does not make a living tab a dead one", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const [first, second] = [await open(), await open()];
    await mock.gate("hold");
    await openClient(first, {});
    await first.evaluate(async (tea) => {
      const operation = await client.operation("cart/1", tea);
      window.sending = operation.send();
    }, TEA);
    await until(async () => (await mock.posts()).length === 1, "the first request");
    await second.evaluate(() => {
      const now = Date.now;
      Date.now = () => now() + 60_000;
    });
    await openClient(second, {});
    await second.evaluate(() => {
      window.resuming = client.resumeAll({ onProgress: ({ state }) => steps.push(state) });
    });
    await until(() => second.evaluate(() => steps.includes("joined")), "the second tab's wait");
    // Longer than the tab that lives keeps silent.
    await second.evaluate(() => new Promise((resolve) => setTimeout(resolve, 8_000)));
    assert.equal((await mock.posts()).length, 1, "a second tab sent while the first was at it");
    await mock.gate("release");
    assert.equal(await first.evaluate(async () => (await sending).state), "succeeded");
    const [state] = await second.evaluate(async () => (await resuming).map(({ outcome }) => outcome?.state));
    assert.equal(state, "succeeded");
    assert.equal((await mock.posts()).length, 1);
  }),
);

test("asleep until long after the server's wait: it goes on by the wall clock", LIMIT, () =>
  stage(async ({ mock, site, page: open }) => {
    const page = await open();
    await openClient(page, { policy: QUICK });
    site.cuts.push("HTTP/1.1 503 Busy\r\nRetry-After: 3600\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    const parked = await page.evaluate(async (tea) => {
      const operation = await client.operation("cart/1", tea);
      const { kind, until, unresolved } = await operation.send().catch((error) => error);
      const again = (await client.resumeAll()).map(({ error }) => error?.kind);
      return { kind, unresolved, minutes: Math.round((until - Date.now()) / 60_000), again };
    }, TEA);
    // A hint is spread upward.
    assert.ok(parked.minutes >= 60 && parked.minutes <= 80, `${parked.minutes} minutes`);
    assert.deepEqual([parked.kind, parked.unresolved, parked.again], ["deferred", true, ["deferred"]]);
    assert.equal((await mock.posts()).length, 1);
    await page.evaluate(() => {
      const now = Date.now;
      Date.now = () => now() + 2 * 3_600_000;
      document.dispatchEvent(new Event("visibilitychange"));
    });
    await until(() => page.evaluate(async () => (await client.list("settled")).length === 1), "the end");
    const { effects, keys } = await mock.ledger();
    assert.deepEqual([effects.length, keys.length], [1, 1]);
  }),
);

test("a day asleep: the window has closed, a person is asked, and nothing is sent", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    await openClient(page, { policy: { ...QUICK, base: 2_000, cap: 4_000 } });
    await mock.fault("status:503");
    await page.evaluate(async (tea) => {
      const operation = await client.operation("cart/1", tea);
      window.sending = operation.send({ onProgress: ({ state }) => steps.push(state) }).catch((error) => error);
    }, TEA);
    await until(() => page.evaluate(() => steps.includes("waiting")), "the wait");
    const seen = await page.evaluate(async () => {
      const now = Date.now;
      Date.now = () => now() + 24 * 3_600_000;
      const { kind, reason, unresolved } = await sending;
      return { kind, reason, unresolved };
    });
    assert.deepEqual(seen, { kind: "attention", reason: "window-closed", unresolved: true });
    assert.equal((await mock.posts()).length, 1);
  }),
);

test("many bodies at once, small and large: the browser's limit on what outlives a page costs no attempt", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    await openClient(page, { policy: QUICK });
    const attempts = await page.evaluate(async () => {
      const pay = async (size, i) => {
        const json = { note: "x".repeat(size) };
        const outcome = await (await client.operation(`cart/${i}`, { url: "/api/orders", json })).send();
        return outcome.attempts;
      };
      return Promise.all([20_000, 20_000, 20_000, 20_000, 30_000, 59_000, 62_000, 200_000].map(pay));
    });
    assert.deepEqual(attempts, Array(8).fill(1));
    assert.equal((await mock.posts()).length, 8);
  }),
);

test("without Web Locks, as on a page without https: IndexedDB works, localStorage is refused", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    await page.addInitScript(() => Object.defineProperty(Navigator.prototype, "locks", { get: () => undefined }));
    await page.reload();
    assert.deepEqual(await opened(page, { store: "localstorage" }), {
      kind: "journal",
      reason: "unavailable",
      nothingWasSent: true,
    });
    assert.deepEqual(await opened(page), { grade: "device" });
    const state = await page.evaluate(async (tea) => (await (await client.operation("cart/1", tea)).send()).state, TEA);
    assert.equal(state, "succeeded");
    assert.equal((await mock.posts()).length, 1);
  }),
);

test("a body that the journal does not keep: a reload needs the request again, and then goes on under the same key", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    await openClient(page, { keepBodies: false });
    const card = { url: "/api/orders", json: { card: "canary-4242" } };
    const key = await page.evaluate(async (card) => (window.held = await client.operation("cart/1", card)).key, card);
    await page.reload();
    await openClient(page, { keepBodies: false });
    const seen = await page.evaluate(async (card) => {
      const [{ error }] = await client.resumeAll();
      const settled = (request) => new Promise((resolve) => (request.onsuccess = () => resolve(request.result)));
      const database = await settled(indexedDB.open("samekey-shop"));
      const rows = await settled(database.transaction("entries").objectStore("entries").getAll());
      database.close();
      const kept = rows.some(({ frozen }) => new TextDecoder("latin1").decode(frozen).includes("canary"));
      const { state, key } = await (await client.operation("cart/1", card)).send();
      return { resumed: error.kind, kept, state, key };
    }, card);
    assert.deepEqual(seen, { resumed: "body-needed", kept: false, state: "succeeded", key });
    assert.equal((await mock.ledger()).effects.length, 1);
  }),
);
