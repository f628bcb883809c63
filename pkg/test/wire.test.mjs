// What servers and networks do to a page, one case at a time.
import assert from "node:assert/strict";
import { test } from "node:test";
import { openClient, stage, startMock, until } from "./harness.mjs";

const QUICK = { base: 120, cap: 400, attemptTimeout: 5_000 };
const LIMIT = { timeout: 90_000 };

/** Sends in the page; what comes of it as plain values. */
const pay = (page, intent, request) =>
  page.evaluate(
    async ({ intent, request }) => {
      const steps = [];
      try {
        const operation = await client.operation(intent, request);
        const outcome = await operation.send({ onProgress: (step) => steps.push(step) });
        const { state, status, key, attempts, provenance } = outcome;
        return { state, status, key, attempts, provenance, json: outcome.json(), steps };
      } catch (error) {
        const { kind, reason, unresolved, nothingWasSent, reference, message } = error;
        return { kind, reason, unresolved, nothingWasSent, reference, message, steps };
      }
    },
    { intent, request },
  );

test("offline: nothing is tried until the network is back", LIMIT, () =>
  stage(async ({ mock, browser, page: open }) => {
    const page = await open();
    await openClient(page, { policy: QUICK });
    await browser.context.setOffline(true);
    await page.evaluate(async () => {
      const operation = await client.operation("cart/1", { url: "/api/orders", json: { item: "tea" } });
      window.sending = operation.send({ onProgress: (step) => steps.push(step.state) });
    });
    await until(() => page.evaluate(() => steps.includes("offline")), "the news of being offline");
    // Longer than all attempts of this policy would take.
    await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 3_000)));
    assert.deepEqual(await page.evaluate(() => steps), ["offline"]);
    await browser.context.setOffline(false);
    const attempts = await page.evaluate(async () => (await sending).attempts);
    assert.equal(attempts, 1, "attempts were burnt while offline");
    assert.equal((await mock.posts()).length, 1);
  }),
);

test("422, the key was used with another request: a person has to look", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    await openClient(page, { policy: QUICK });
    const key = "8e03978e-40d5-43e8-bc93-6894a57f9324";
    const answer = await fetch(`${mock.url}/orders`, {
      method: "POST",
      headers: { "Idempotency-Key": key, "Content-Type": "application/json" },
      body: JSON.stringify({ item: "coffee" }),
    });
    assert.equal(answer.status, 201);
    const ended = await pay(page, "cart/1", { url: "/api/orders", json: { item: "tea" }, adoptKey: key });
    assert.equal(ended.kind, "attention", JSON.stringify(ended));
    assert.equal(ended.reason, "key-mismatch");
    assert.equal((await mock.ledger()).effects.length, 1);
  }),
);

test("202: the result is polled for", LIMIT, () =>
  stage(
    async ({ page: open }) => {
      const page = await open();
      // The server names the place of the result by its own address: the page must be allowed there.
      await openClient(page, { policy: QUICK });
      const ended = await pay(page, "export/1", { url: `${await apiOf(page)}/exports`, json: { of: "orders" } });
      assert.equal(ended.state, "succeeded", JSON.stringify(ended));
      assert.ok(ended.steps.some(({ state }) => state === "polling"), "it was not polled");
    },
    { mockOptions: ["--export", "600"] },
  ),
);

/** The mock's own address, as a page of another origin would use it. */
async function apiOf(page) {
  return page.evaluate(async () => (await (await fetch("/api-url")).text()).trim());
}

for (const [name, omit] of [["exposed", []], ["hidden", ["--cors-omit", "Access-Control-Expose-Headers"]]]) {
  test(`409 in flight with Retry-After ${name} by CORS: waited out, one effect`, LIMIT, () =>
    stage(
      async ({ mock, page: open }) => {
        const page = await open();
        await openClient(page, { policy: { ...QUICK, attemptTimeout: 600 } });
        await mock.fault("slow-work:2500*1");
        const ended = await pay(page, "cart/1", { url: `${mock.url}/orders`, json: { item: "tea" } });
        const { effects, keys } = await mock.ledger();
        assert.equal(effects.length, 1);
        assert.equal(keys.length, 1);
        if (ended.state) assert.equal(ended.state, "succeeded");
        else assert.equal(ended.unresolved, true, JSON.stringify(ended));
        if (name === "exposed") assert.equal(ended.state, "succeeded", JSON.stringify(ended));
      },
      { mockOptions: omit },
    ),
  );
}

test("no CORS headers at all: never a failure, and never an effect", LIMIT, async () => {
  const other = await startMock("--cors-omit", "Access-Control-Allow-Origin");
  try {
    await stage(async ({ page: open }) => {
      const page = await open();
      await openClient(page, { policy: { ...QUICK, maxAttempts: 2 } });
      const ended = await pay(page, "cart/1", { url: `${other.url}/orders`, json: { item: "tea" } });
      // A script cannot tell a refused preflight from a lost answer.
      assert.equal(ended.kind, "attention", JSON.stringify(ended));
      assert.equal(ended.unresolved, true);
      assert.equal((await other.posts()).length, 0);
    });
  } finally {
    await other.stop();
  }
});

test("T16: a redirect is not followed, and not called a failure", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    await openClient(page, { policy: QUICK });
    await mock.fault("redirect-same:307*1");
    const ended = await pay(page, "cart/1", { url: "/api/orders", json: { item: "tea" } });
    assert.equal(ended.kind, "attention", JSON.stringify(ended));
    assert.equal(ended.unresolved, true);
  }),
);

test("quota: a full store refuses new operations before anything is sent, and records old ones", LIMIT, () =>
  stage(async ({ mock, browser, site, page: open }) => {
    const page = await open();
    await openClient(page, { store: "localstorage", policy: QUICK });
    await page.evaluate(async () => {
      window.old = await client.operation("cart/old", { url: "/api/orders", json: { item: "tea" } });
      let chunk = "x".repeat(1 << 20);
      for (let i = 0; chunk.length > 0; i++) {
        try {
          localStorage.setItem(`fill/${i}`, chunk);
        } catch {
          chunk = chunk.slice(0, chunk.length >> 1);
        }
      }
    });
    const refused = await pay(page, "cart/new", { url: "/api/orders", json: { item: "tea" } });
    assert.deepEqual(
      [refused.kind, refused.reason, refused.nothingWasSent],
      ["journal", "full", true],
      JSON.stringify(refused),
    );
    assert.equal((await mock.posts()).length, 0);
    const outcome = await page.evaluate(async () => {
      const { state, recorded } = await old.send();
      return { state, recorded };
    });
    assert.deepEqual(outcome, { state: "succeeded", recorded: true });
    assert.equal((await mock.posts()).length, 1);
  }),
);

test("cancel, then reload: the user's stop wins over every sweep", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    await mock.fault("status:503");
    await openClient(page, { policy: { ...QUICK, base: 3_000, cap: 4_000 } });
    await page.evaluate(async () => {
      const operation = await client.operation("cart/1", { url: "/api/orders", json: { item: "tea" } });
      operation.send({ onProgress: (step) => steps.push(step.state) }).catch(() => {});
      window.operation = operation;
    });
    await until(() => page.evaluate(() => steps.includes("waiting")), "the first wait");
    const state = await page.evaluate(() => operation.cancel());
    assert.ok(["attention", "abandoned"].includes(state), state);
    const before = (await mock.posts()).length;
    await mock.calm();
    await page.reload();
    await openClient(page, { policy: QUICK });
    assert.deepEqual(await page.evaluate(async () => (await client.resumeAll()).length), 0);
    assert.equal((await mock.posts()).length, before);
    assert.equal((await mock.ledger()).effects.length, 0);
  }),
);

test("a cancel in the same breath as the send is never told as abandoned if something left", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    await openClient(page, { policy: QUICK });
    const ends = await page.evaluate(async () => {
      const ends = [];
      for (let number = 0; number < 12; number += 1) {
        const operation = await client.operation(`cart/${number}`, { url: "/api/orders", json: { number } });
        const sent = operation.send().then(({ state }) => state, ({ kind }) => kind);
        // At once, a moment later, and later still.
        for (let turns = 0; turns < number % 4; turns += 1) await null;
        const cancelled = await operation.cancel().catch(({ kind }) => kind);
        await sent;
        ends.push([operation.key, cancelled]);
      }
      return ends;
    });
    const posts = (await mock.posts()).map(({ key }) => key);
    const wrong = ends.filter(([key, state]) => state === "abandoned" && posts.includes(key));
    assert.deepEqual(wrong, []);
    assert.equal(ends.length, 12);
    for (const [, state] of ends) assert.ok(["abandoned", "attention", "succeeded", "ended"].includes(state), state);
  }),
);

for (const cancelled of [true, false]) {
  const name = cancelled
    ? "a cancel in another tab stops the one that drives, and no event sends it again"
    : "control: without the cancel it is sent again";
  test(name, LIMIT, () =>
    stage(async ({ mock, page: open }) => {
      const [first, second] = [await open(), await open()];
      await mock.fault("status:503*1");
      for (const tab of [first, second]) {
        await openClient(tab, { policy: { ...QUICK, base: 1_000, cap: 1_000 } });
        await tab.evaluate(() => void client.resumeAll());
      }
      const reference = await first.evaluate(async () => {
        const operation = await client.operation("cart/1", { url: "/api/orders", json: { item: "tea" } });
        window.ended = operation.send({ onProgress: (step) => steps.push(step.state) }).catch((error) => error);
        return operation.reference;
      });
      await until(() => first.evaluate(() => steps.includes("waiting")), "the first wait");
      if (cancelled) {
        const state = await second.evaluate(async (reference) => (await client.find(reference))[0].cancel(), reference);
        assert.equal(state, "attention", "the server may have acted on the first attempt");
      }
      for (const tab of [first, second]) {
        await tab.evaluate(() => {
          for (const event of ["online", "storage", "pageshow"]) dispatchEvent(new Event(event));
          document.dispatchEvent(new Event("visibilitychange"));
        });
      }
      const { state, kind, reason } = await first.evaluate(async () => {
        const { state, kind, reason } = await ended;
        return { state, kind, reason };
      });
      if (cancelled) assert.deepEqual([kind, reason], ["attention", "cancelled"]);
      else assert.equal(state, "succeeded");
      assert.equal((await mock.posts()).length, cancelled ? 1 : 2);
    }),
  );
}

for (const store of ["indexeddb", "localstorage"]) {
  test(`${store}: after signing out not a trace of the user is left, before it there is`, LIMIT, () =>
    stage(async ({ page: open }) => {
      const page = await open();
      const traces = await page.evaluate(async (store) => {
        const { Client } = await import("/dist/index.js");
        const settled = (request) => new Promise((resolve) => (request.onsuccess = () => resolve(request.result)));
        const latin = (value) => (value instanceof Uint8Array ? new TextDecoder("latin1").decode(value) : value);
        const trace = async () => {
          const found = [JSON.stringify({ ...localStorage })];
          for (const { name } of await indexedDB.databases()) {
            const database = await settled(indexedDB.open(name));
            for (const table of database.objectStoreNames) {
              const rows = await settled(database.transaction(table).objectStore(table).getAll());
              found.push(JSON.stringify(rows, (_, value) => latin(value)));
            }
            database.close();
          }
          return found.some((text) => text.includes("canary"));
        };
        const effects = { row: { apply() {}, revert() {} } };
        const client = await Client.open({ application: "shop", scope: "canary-ann", store, effects });
        const request = { url: "/api/orders", json: { name: "canary" }, optimistic: { effect: "row", args: "canary" } };
        await (await client.operation("canary/1", request)).send();
        await client.operation("canary/2", request);
        const before = await trace();
        return [before, await client.signOut(), await trace()];
      }, store);
      assert.deepEqual(traces, [true, 2, false]);
    }),
  );
}

test("signing out wipes one scope and leaves the other", LIMIT, () =>
  stage(async ({ page: open }) => {
    const page = await open();
    const counts = await page.evaluate(async () => {
      const { Client } = await import("/dist/index.js");
      const open = (scope) => Client.open({ application: "shop", scope });
      const [ann, bob] = [await open("ann"), await open("bob")];
      for (const client of [ann, bob]) {
        await client.operation("cart/1", { url: "/api/orders", json: { item: "tea" } });
      }
      const wiped = await ann.signOut();
      const left = (client) => client.list().then((all) => all.length);
      return [wiped, await left(await open("ann")), await left(await open("bob"))];
    });
    assert.deepEqual(counts, [1, 0, 1]);
  }),
);

test("credentials are asked for at each attempt and kept nowhere", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    await mock.fault("status:503*1");
    const found = await page.evaluate(async () => {
      const { Client } = await import("/dist/index.js");
      let asked = 0;
      const credentials = () => ({ Authorization: `Bearer canary-${++asked}` });
      const client = await Client.open({ application: "shop", credentials, policy: { base: 120, cap: 400 } });
      const operation = await client.operation("cart/1", { url: "/api/orders", json: { item: "tea" } });
      await operation.send();
      const open = indexedDB.open("samekey-shop");
      await new Promise((resolve) => (open.onsuccess = resolve));
      const all = open.result.transaction("entries").objectStore("entries").getAll();
      await new Promise((resolve) => (all.onsuccess = resolve));
      const text = all.result.map((row) => new TextDecoder("latin1").decode(row.frozen) + new TextDecoder("latin1").decode(row.progress));
      return { asked, leaked: text.join().includes("canary"), rows: text.length };
    });
    assert.deepEqual(found, { asked: 2, leaked: false, rows: 1 });
  }),
);

test("an AbortSignal lets go, and the operation stays resumable", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    await mock.gate("hold");
    await openClient(page, { policy: QUICK });
    const aborted = await page.evaluate(async () => {
      const operation = await client.operation("cart/1", { url: "/api/orders", json: { item: "tea" } });
      const stop = new AbortController();
      const sending = operation.send({ signal: stop.signal, onProgress: () => setTimeout(() => stop.abort(), 200) });
      const error = await sending.catch((error) => error);
      return { name: error.name, kind: error.kind, unresolved: error.unresolved };
    });
    assert.deepEqual(aborted, { name: "AbortError", kind: "aborted", unresolved: true });
    await mock.gate("release");
    const [state] = await page.evaluate(async () => (await client.resumeAll()).map(({ outcome }) => outcome?.state));
    assert.equal(state, "succeeded");
    assert.equal((await mock.ledger()).effects.length, 1);
  }),
);

/** A page that counts what it shows. */
const shop = (page) =>
  page.evaluate(async () => {
    const { Client } = await import("/dist/index.js");
    window.calls = [];
    const call = (name) => (args) => calls.push(`${name} ${args.item}`);
    const row = { apply: call("apply"), confirm: call("confirm"), revert: call("revert") };
    window.client = await Client.open({ application: "shop", effects: { row }, policy: { base: 120, cap: 400, maxAttempts: 2 } });
  });

for (const [name, amount, fault, reload, calls, after] of [
  ["survives a reload, and is confirmed on success", 100, undefined, true, ["apply tea", "confirm tea"], []],
  ["is taken back on 402", 2_000_000, undefined, false, ["apply tea", "revert tea"], []],
  // After a reload the first page may have sent it, so that a refusal no longer proves anything.
  ["stays on 402 after a doubt", 2_000_000, undefined, true, ["apply tea"], ["apply tea"]],
  ["stays while the outcome is unknown", 100, "drop-after-commit", true, ["apply tea"], ["apply tea"]],
]) {
  test(`optimistic state ${name}`, LIMIT, () =>
    stage(async ({ mock, page: open }) => {
      const page = await open();
      await shop(page);
      if (fault) await mock.fault(fault);
      await page.evaluate(async (amount) => {
        window.operation = await client.operation("cart/1", {
          url: "/api/payments",
          json: { amount },
          optimistic: { effect: "row", args: { item: "tea" } },
        });
      }, amount);
      assert.deepEqual(await page.evaluate(() => calls), ["apply tea"]);
      if (reload) {
        await page.reload();
        await shop(page);
        assert.deepEqual(await page.evaluate(() => calls), ["apply tea"], "not shown again after the reload");
        await page.evaluate(() => client.resumeAll());
      } else {
        await page.evaluate(() => operation.send());
      }
      assert.deepEqual(await page.evaluate(() => calls), calls);
      await page.reload();
      await shop(page);
      assert.deepEqual(await page.evaluate(() => calls), after);
    }),
  );
}

test("optimistic state is taken back when it is abandoned, and stays when a cancel leaves it unknown", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    await shop(page);
    await mock.gate("hold");
    const seen = await page.evaluate(async () => {
      const begin = (item) =>
        client.operation(`cart/${item}`, { url: "/api/payments", json: { item }, optimistic: { effect: "row", args: { item } } });
      const [tea, cups, cake] = [await begin("tea"), await begin("cups"), await begin("cake")];
      const states = [await tea.cancel()];
      for (const operation of [cups, cake]) {
        const sent = new Promise((resolve) => operation.send({ onProgress: resolve }).catch(() => {}));
        await sent;
      }
      states.push(await cups.cancel(), await cake.cancel(), await cake.abandon("the shop never heard of it"));
      return { states, calls };
    });
    assert.deepEqual(seen.states, ["abandoned", "attention", "attention", "abandoned"]);
    assert.deepEqual(seen.calls, ["apply tea", "apply cups", "apply cake", "revert tea", "revert cake"]);
    await page.reload();
    await shop(page);
    assert.deepEqual(await page.evaluate(() => calls), ["apply cups"]);
  }),
);

test("control: a browser that does not know that it is offline burns attempts", LIMIT, () =>
  stage(async ({ browser, page: open }) => {
    const page = await open();
    await page.addInitScript(() => Object.defineProperty(Navigator.prototype, "onLine", { get: () => true }));
    await page.reload();
    await openClient(page, { policy: QUICK });
    await browser.context.setOffline(true);
    const ended = await page.evaluate(async () => {
      const operation = await client.operation("cart/1", { url: "/api/orders", json: { item: "tea" } });
      const { kind, attempts } = await operation.send().catch((error) => error);
      return { kind, attempts };
    });
    assert.deepEqual(ended, { kind: "attention", attempts: 6 });
  }),
);

test("a callback for credentials that fails in any way at all is no credentials, and never a silence", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    const kinds = await page.evaluate(async () => {
      const { Client } = await import("/dist/index.js");
      const ways = [
        () => { throw new Error("no token"); },
        () => Promise.reject(),
        () => Promise.reject(null),
        () => null,
        () => ({ Authorization: Symbol("token") }),
      ];
      const kinds = [];
      for (const [at, credentials] of ways.entries()) {
        const client = await Client.open({ application: `shop-${at}`, credentials, store: "memory", policy: { maxAttempts: 1 } });
        const operation = await client.operation("cart/1", { url: "/api/orders", json: { item: "tea" } });
        const silence = new Promise((resolve) => setTimeout(resolve, 10_000, { kind: "silence" }));
        kinds.push((await Promise.race([operation.send().catch((error) => error), silence])).kind);
      }
      return kinds;
    });
    assert.deepEqual(kinds, Array(5).fill("not-applied"));
    assert.equal((await mock.posts()).length, 0);
  }),
);

test("header lines that are numbers are sent as texts, and a body of no bytes' kind is refused", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    await openClient(page, { policy: QUICK, keepHeaders: ["x-version"] });
    const request = { url: "/api/orders", json: { item: "tea" }, headers: { "X-Version": 3 } };
    assert.equal((await pay(page, "cart/1", request)).state, "succeeded");
    const refused = await page.evaluate(async () => {
      const wrong = [new ArrayBuffer(3), new Uint16Array(3), [1, 2], new Blob(["x"]), 7];
      const begin = (body, at) =>
        client.operation(`cart/wrong-${at}`, { url: "/api/orders", body, contentType: "text/plain" }).catch((error) => error.kind);
      return Promise.all(wrong.map(begin));
    });
    assert.deepEqual(refused, Array(5).fill("invalid-request"));
    assert.equal((await mock.posts()).length, 1);
  }),
);
