// What a page is told when something of its own breaks: the module, the header lines, its patience.
import assert from "node:assert/strict";
import { test } from "node:test";
import { openClient, stage } from "./harness.mjs";

const LIMIT = { timeout: 90_000 };
const TEA = { url: "/api/orders", json: { item: "tea" } };
const POLICY = { base: 120, cap: 400, attemptTimeout: 5_000 };

/** The module's one function traps once `window.broken` is set. */
const breakable = (page) =>
  page.evaluate(() => {
    const instantiate = WebAssembly.instantiate;
    WebAssembly.instantiate = async (...given) => {
      const { instance } = await instantiate(...given);
      const { call, ...others } = instance.exports;
      const trap = (...asked) => {
        if (window.broken) throw new WebAssembly.RuntimeError("unreachable");
        return call(...asked);
      };
      return { instance: { exports: { ...others, call: trap } } };
    };
  });

for (const broken of [true, false]) {
  const name = "a module that breaks down says so, and another tab goes on at once under the same key";
  test(broken ? name : "control: one that does not break is not said to", LIMIT, () =>
    stage(async ({ mock, page: open }) => {
      const page = await open();
      await breakable(page);
      await openClient(page, { policy: POLICY });
      const seen = await page.evaluate(
        async ({ tea, broken }) => {
          const operation = await window.client.operation("cart/1", tea);
          const { key } = operation;
          window.broken = broken;
          const told = async (asked) => {
            const { kind, unresolved, nothingWasSent, message } = await asked.then(() => ({}), (error) => error);
            return [kind, unresolved, nothingWasSent, message?.includes("reload the page")];
          };
          const sent = await told(operation.send());
          // Once broken, always: nothing it says counts any more.
          window.broken = false;
          return { key, sent, later: await told(window.client.list("all")) };
        },
        { tea: TEA, broken },
      );
      const module = ["module", true, false, true];
      const fine = [undefined, undefined, undefined, undefined];
      assert.deepEqual([seen.sent, seen.later], broken ? [module, module] : [fine, fine]);
      await page.close();
      const next = await open();
      await openClient(next, { policy: POLICY });
      const resumed = await next.evaluate(async () => (await window.client.resumeAll()).map(({ operation, outcome }) => [operation.key, outcome?.state]));
      assert.deepEqual(resumed, broken ? [[seen.key, "succeeded"]] : []);
      const { requests, effects } = await mock.ledger();
      assert.equal(effects.length, 1);
      assert.deepEqual([...new Set(requests.map(({ key }) => key))], [seen.key]);
    }),
  );
}

test("header lines that the browser refuses: nothing was sent, and it is said why", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    // As a browser that is stricter than we are.
    await page.evaluate(() => {
      const append = Headers.prototype.append;
      Headers.prototype.append = function (name, value) {
        if (name.toLowerCase() === "x-odd") throw new TypeError("Invalid value");
        append.call(this, name, value);
      };
    });
    await openClient(page, { policy: POLICY, keepHeaders: ["x-odd"] });
    const seen = await page.evaluate(async (tea) => {
      const operation = await window.client.operation("cart/1", { ...tea, headers: { "X-Odd": "1" } });
      const { kind, nothingWasSent, unresolved, message } = await operation.send().catch((error) => error);
      return { kind, nothingWasSent, unresolved, why: message.includes("header lines") };
    }, TEA);
    assert.deepEqual(seen, { kind: "ended", nothingWasSent: true, unresolved: false, why: true });
    assert.deepEqual((await mock.ledger()).requests, []);
  }),
);

test("who lets go before anything left hears that nothing was sent; afterwards, that it is open", LIMIT, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    await openClient(page, { policy: POLICY });
    const seen = await page.evaluate(async (tea) => {
      const plain = ({ kind, name, unresolved, nothingWasSent, reference, message }, operation) => ({
        kind, name, unresolved, nothingWasSent, named: reference === operation.reference && message.includes(reference),
      });
      const early = await window.client.operation("cart/1", tea);
      const before = await early.send({ signal: AbortSignal.abort() }).catch((error) => plain(error, early));
      const late = await window.client.operation("cart/2", tea);
      const leash = new AbortController();
      const onProgress = ({ state }) => state === "sending" && setTimeout(() => leash.abort());
      const real = window.fetch;
      window.fetch = () => new Promise(() => {});
      const after = await late.send({ signal: leash.signal, onProgress }).catch((error) => plain(error, late));
      window.fetch = real;
      return { before, after };
    }, TEA);
    const aborted = { kind: "aborted", name: "AbortError", named: true };
    assert.deepEqual(seen, {
      before: { ...aborted, unresolved: false, nothingWasSent: true },
      after: { ...aborted, unresolved: true, nothingWasSent: false },
    });
    assert.deepEqual((await mock.ledger()).requests, []);
  }),
);
