// Stores in trouble: each time nothing is sent in the dark, and nothing is dropped.
import assert from "node:assert/strict";
import { test } from "node:test";
import { openClient, stage, startBrowser, startMock, startSite } from "./harness.mjs";

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

test("control: a closed connection takes nothing more, and where none is to be had the error says so", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    await page.addInitScript(() => {
      window.connections = [];
      const opening = IDBFactory.prototype.open;
      IDBFactory.prototype.open = function (...asked) {
        if (window.shut) throw new DOMException("The database is gone.", "InvalidStateError");
        const request = opening.apply(this, asked);
        request.addEventListener("success", () => connections.push(request.result));
        return request;
      };
    });
    await page.reload();
    await openClient(page, {});
    const seen = await page.evaluate(async (tea) => {
      const [journal] = connections;
      connections.forEach((connection) => connection.close());
      window.shut = true;
      let raw;
      try {
        journal.transaction("entries");
      } catch ({ name }) {
        raw = name;
      }
      const { kind, reason, nothingWasSent } = await client.operation("cart/1", tea).catch((error) => error);
      return { raw, kind, reason, nothingWasSent };
    }, TEA);
    assert.deepEqual(seen, { raw: "InvalidStateError", kind: "journal", reason: "unavailable", nothingWasSent: true });
    assert.equal((await mock.posts()).length, 0);
  }),
);

/** The quota of this origin. It must be set before anything is stored: the browser remembers what it last said. */
const withQuota = async (browser, page, origin) => {
  const session = await browser.context.newCDPSession(page);
  await session.send("Storage.overrideQuotaForOrigin", { origin, quotaSize: 4_000_000 });
};

/** Fills the origin's storage with a database of the page's own, to the last byte that fits. */
const fill = (page) =>
  page.evaluate(async () => {
    const opening = indexedDB.open("filling", 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("rows", { autoIncrement: true });
    const database = await new Promise((resolve) => (opening.onsuccess = () => resolve(opening.result)));
    for (let size = 1 << 16; size > 16; ) {
      const transaction = database.transaction("rows", "readwrite", { durability: "strict" });
      transaction.objectStore("rows").put(crypto.getRandomValues(new Uint8Array(size)));
      const fits = await new Promise((resolve) => {
        transaction.oncomplete = () => resolve(true);
        transaction.onabort = () => resolve(false);
      });
      if (!fits) size >>= 1;
    }
  });

/** What becomes of a new operation and of an old one, before and after a reload, when nothing more fits. */
async function atTheQuota(use) {
  const mock = await startMock();
  const site = await startSite(mock);
  // With a profile on the disk, as people have it: in memory, room is given back in another way.
  const browser = await startBrowser();
  try {
    const page = await browser.page(site.url);
    await withQuota(browser, page, site.url);
    await openClient(page, {});
    await page.evaluate(async (tea) => {
      window.old = await client.operation("cart/old", tea);
      await client.operation("cart/older", tea);
    }, TEA);
    await use(page, mock);
  } finally {
    await browser.stop();
    await site.stop();
    await mock.stop();
  }
}

test("quota: a full IndexedDB refuses new operations before anything is sent, and records old ones", LIMIT, () =>
  atTheQuota(async (page, mock) => {
    await fill(page);
    const refused = await page.evaluate(async (tea) => {
      const { kind, reason, nothingWasSent } = await client.operation("cart/new", tea).catch((error) => error);
      return { kind, reason, nothingWasSent };
    }, TEA);
    assert.deepEqual(refused, { kind: "journal", reason: "full", nothingWasSent: true });
    assert.equal((await mock.posts()).length, 0);
    const outcome = await page.evaluate(async () => {
      const { state, recorded } = await old.send();
      return { state, recorded };
    });
    assert.deepEqual(outcome, { state: "succeeded", recorded: true });
    await page.reload();
    await openClient(page, {});
    const after = await page.evaluate(async () => {
      const [{ outcome }] = await client.resumeAll();
      const listed = (await client.list()).map(({ intent, state }) => [intent, state]);
      return { state: outcome?.state, recorded: outcome?.recorded, listed };
    });
    const listed = [["cart/old", "succeeded"], ["cart/older", "succeeded"]];
    assert.deepEqual(after, { state: "succeeded", recorded: true, listed });
    assert.equal((await mock.posts()).length, 2);
  }),
);

test("control: without the reserve the outcome of an old operation finds no room", LIMIT, () =>
  atTheQuota(async (page) => {
    await page.evaluate(async () => {
      const deleting = indexedDB.deleteDatabase("samekey-shop:reserve");
      await new Promise((resolve) => (deleting.onsuccess = resolve));
    });
    await fill(page);
    const outcome = await page.evaluate(async () => {
      const { state, recorded } = await old.send();
      return { state, recorded };
    });
    // It happened all the same, and a later resume learns it again.
    assert.deepEqual(outcome, { state: "succeeded", recorded: false });
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
        const [head, length] = /^\d+:(\d+):/.exec(value);
        const bytes = Uint8Array.from(value.slice(head.length), (c) => c.charCodeAt(0));
        await change(bytes.subarray(0, Number(length)));
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

/** Another format, with a digest that fits. */
const asFormat = (format) => `
  bytes[0] = ${format};
  const content = bytes.subarray(0, bytes.length - 16);
  const name = new TextEncoder().encode("frozen");
  const whole = Uint8Array.of(name.length, 0, 0, 0, 0, 0, 0, 0, ...name, ...content);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", whole));
  bytes.set(digest.subarray(0, 16), content.length);`;

for (const store of ["indexeddb", "localstorage"]) {
  test(`${store}: an entry of a newer release is listed as such, and left alone until that release is back`, LIMIT, () =>
    stage(async ({ mock, page: open }) => {
      const page = await open();
      await openClient(page, { store });
      const key = await page.evaluate(async (tea) => (await client.operation("cart/1", tea)).key, TEA);
      await alter(page, store, asFormat(9));
      await page.reload();
      await openClient(page, { store });
      const found = await page.evaluate(async (tea) => {
        const again = await client.operation("cart/1", tea).catch((error) => error);
        const resumed = (await client.resumeAll()).map(({ error }) => error?.kind);
        return { damage: (await client.list()).map(({ summary }) => summary.damage), kind: again.kind, resumed };
      }, TEA);
      assert.equal(found.damage.length, 1);
      assert.match(found.damage[0], /newer samekey wrote it \(format 9/);
      assert.deepEqual([found.kind, found.resumed], ["damaged", ["damaged"]]);
      assert.equal((await mock.posts()).length, 0);
      // The control: with the format that this release knows, and nothing else changed, it is sent.
      await alter(page, store, asFormat(1));
      const ended = await page.evaluate(async () => (await client.resumeAll()).map(({ outcome }) => [outcome?.key, outcome?.state]));
      assert.deepEqual(ended, [[key, "succeeded"]]);
    }),
  );
}

test("a journal whose layout is newer is refused as such", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    await page.evaluate(async () => {
      const opening = indexedDB.open("samekey-shop", 99);
      const database = await new Promise((resolve) => (opening.onsuccess = () => resolve(opening.result)));
      database.close();
    });
    assert.deepEqual(await opened(page, {}), { kind: "journal", reason: "too-new", nothingWasSent: true });
    assert.deepEqual(await opened(page, { fallback: true }), { kind: "journal", reason: "too-new", nothingWasSent: true });
    assert.equal((await mock.posts()).length, 0);
  }),
);
