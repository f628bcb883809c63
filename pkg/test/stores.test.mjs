// Stores in trouble: each time nothing is sent in the dark, and nothing is dropped.
import assert from "node:assert/strict";
import { test } from "node:test";
import { openClient, stage } from "./harness.mjs";

const LIMIT = { timeout: 90_000 };
const TEA = { url: "/api/orders", json: { item: "tea" } };

/** Opens a client in the page; what comes of it as plain values. */
const opened = (page, options) =>
  page.evaluate(async (options) => {
    const { Client } = await import("/dist/index.js");
    const answer = await Client.open({ application: "shop", ...options }).catch((error) => error);
    if (answer instanceof Client) window.client = answer;
    const { grade, kind, reason, nothingWasSent } = answer;
    return answer instanceof Client ? { grade } : { kind, reason, nothingWasSent };
  }, options);

/** What a page without IndexedDB sees: as where the user blocks it. */
const withoutIndexedDb = (page) =>
  page.addInitScript(() =>
    Object.defineProperty(window, "indexedDB", {
      get() {
        throw new DOMException("The operation is insecure.", "SecurityError");
      },
    }),
  );

const withoutLocalStorage = (page) =>
  page.addInitScript(() =>
    Object.defineProperty(window, "localStorage", {
      get() {
        throw new DOMException("Access is denied for this document.", "SecurityError");
      },
    }),
  );

test("blocked storage is refused before anything is sent", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    await withoutIndexedDb(page);
    await withoutLocalStorage(page);
    await page.reload();
    const refusal = { kind: "journal", reason: "unavailable", nothingWasSent: true };
    for (const options of [{}, { store: "localstorage" }, { fallback: true }]) {
      assert.deepEqual(await opened(page, options), refusal, JSON.stringify(options));
    }
    assert.equal((await mock.posts()).length, 0);
  }),
);

test("the fallback is used where it was asked for, and says what it is worth", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    assert.deepEqual(await opened(page, { fallback: true }), { grade: "device" }, "a fallback without need");
    await withoutIndexedDb(page);
    await page.reload();
    assert.deepEqual(await opened(page, {}), { kind: "journal", reason: "unavailable", nothingWasSent: true });
    assert.deepEqual(await opened(page, { fallback: true }), { grade: "reload" });
    const key = await page.evaluate(async (tea) => (await client.operation("cart/1", tea)).key, TEA);
    await page.reload();
    await opened(page, { fallback: true });
    const after = await page.evaluate(async (tea) => {
      const operation = await client.operation("cart/1", tea);
      return [operation.key, (await operation.send()).state];
    }, TEA);
    assert.deepEqual(after, [key, "succeeded"]);
    assert.equal((await mock.ledger()).effects.length, 1);
  }),
);

test("a database that the browser closed is opened again", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    // The journal's connections, so that the test can close them as the browser does.
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
    await openClient(page, {});
    const states = await page.evaluate(async (tea) => {
      const before = connections.length;
      const operation = await client.operation("cart/1", tea);
      connections.forEach((connection) => connection.close());
      const { state, recorded } = await operation.send();
      return { state, recorded, reopened: connections.length > before };
    }, TEA);
    assert.deepEqual(states, { state: "succeeded", recorded: true, reopened: true });
    assert.equal((await mock.ledger()).effects.length, 1);
  }),
);

/**
 * From `window.full = true` on, every write of an entry ends as at the quota, until the reserve is given up. The
 * browser's own way to lower a quota has no effect on IndexedDB.
 */
const withQuota = (page) =>
  page.addInitScript(() => {
    const rows = IDBObjectStore.prototype;
    for (const name of ["add", "put"]) {
      const write = rows[name];
      rows[name] = function (...given) {
        if (!window.full || this.name !== "entries") return write.apply(this, given);
        this.transaction.abort();
        return {};
      };
    }
    const clear = rows.clear;
    rows.clear = function () {
      window.full = false;
      return clear.apply(this);
    };
    const error = Object.getOwnPropertyDescriptor(IDBTransaction.prototype, "error").get;
    const quota = new DOMException("No room is left.", "QuotaExceededError");
    Object.defineProperty(IDBTransaction.prototype, "error", {
      get() {
        return error.call(this) ?? (window.full ? quota : null);
      },
    });
  });

test("quota: a full IndexedDB refuses new operations before anything is sent, and records old ones", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    await withQuota(page);
    await page.reload();
    await openClient(page, {});
    const refused = await page.evaluate(async (tea) => {
      window.old = await client.operation("cart/old", tea);
      window.full = true;
      const { kind, reason, nothingWasSent } = await client.operation("cart/new", tea).catch((error) => error);
      return { kind, reason, nothingWasSent };
    }, TEA);
    assert.deepEqual(refused, { kind: "journal", reason: "full", nothingWasSent: true });
    assert.equal((await mock.posts()).length, 0);
    const outcome = await page.evaluate(async () => {
      const { state, recorded } = await old.send();
      return { state, recorded, full, listed: (await client.list()).map(({ intent }) => intent) };
    });
    assert.deepEqual(outcome, { state: "succeeded", recorded: true, full: false, listed: ["cart/old"] });
  }),
);

/** Alters the first half of the one row behind the journal's back. */
const alter = (page, store, how) =>
  page.evaluate(
    async ({ store, how }) => {
      const change = new (async () => {}).constructor("bytes", how);
      if (store === "localstorage") {
        const item = Object.keys(localStorage).find((name) => name.includes("\0"));
        const value = localStorage.getItem(item);
        const [head] = /^\d+:\d+:/.exec(value);
        const bytes = Uint8Array.from(value.slice(head.length), (c) => c.charCodeAt(0));
        await change(bytes);
        localStorage.setItem(item, head + Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
        return;
      }
      const settled = (request) => new Promise((resolve) => (request.onsuccess = () => resolve(request.result)));
      const database = await settled(indexedDB.open("samekey-shop"));
      const entries = (mode) => database.transaction("entries", mode).objectStore("entries");
      const [row] = await settled(entries("readonly").getAll());
      await change(row.frozen);
      await settled(entries("readwrite").put(row));
      database.close();
    },
    { store, how },
  );

for (const store of ["indexeddb", "localstorage"]) {
  test(`${store}: an altered entry is listed, never sent, never begun anew`, LIMIT, () =>
    stage(async ({ mock, page: open }) => {
      const page = await open();
      await openClient(page, { store });
      const key = await page.evaluate(async (tea) => (await client.operation("cart/1", tea)).key, TEA);
      await alter(page, store, "bytes[40] ^= 1");
      await page.reload();
      await openClient(page, { store });
      const found = await page.evaluate(async (tea) => {
        const [{ operation, error }] = await client.resumeAll();
        const again = await client.operation("cart/1", tea).catch((error) => error);
        const listed = (await client.list()).map(({ summary }) => [summary.key, /altered/.test(summary.damage)]);
        return { key: operation.key, resumed: error.kind, begun: again.kind, unresolved: again.unresolved, listed };
      }, TEA);
      assert.deepEqual(found, { key, resumed: "damaged", begun: "damaged", unresolved: true, listed: [[key, true]] });
      assert.equal((await mock.posts()).length, 0);
      // One bit back, and all of it is there again: nothing was written over it.
      await alter(page, store, "bytes[40] ^= 1");
      const healed = await page.evaluate(async () => (await client.resumeAll()).map(({ outcome }) => outcome?.key));
      assert.deepEqual(healed, [key]);
    }),
  );
}

test("an entry of a newer release is listed as such, and left alone", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    await openClient(page, {});
    await page.evaluate(async (tea) => void (await client.operation("cart/1", tea)), TEA);
    // Format 9, with a digest that fits.
    await alter(
      page,
      "indexeddb",
      `bytes[0] = 9;
       const content = bytes.subarray(0, bytes.length - 16);
       const name = new TextEncoder().encode("frozen");
       const whole = Uint8Array.of(name.length, 0, 0, 0, 0, 0, 0, 0, ...name, ...content);
       const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", whole));
       bytes.set(digest.subarray(0, 16), content.length);`,
    );
    await page.reload();
    await openClient(page, {});
    const found = await page.evaluate(async (tea) => {
      const again = await client.operation("cart/1", tea).catch((error) => error);
      return { damage: (await client.list()).map(({ summary }) => summary.damage), kind: again.kind };
    }, TEA);
    assert.equal(found.damage.length, 1);
    assert.match(found.damage[0], /newer samekey wrote it \(format 9/);
    assert.equal(found.kind, "damaged");
    assert.equal((await mock.posts()).length, 0);
  }),
);
