// Many tabs, one key for each intent.
import assert from "node:assert/strict";
import { test } from "node:test";
import { openClient, stage, until } from "./harness.mjs";

const INTENTS = 1_000;

/** Begins every intent in both tabs, each intent at the same instant as far as clocks allow. */
async function race(tabs, begin) {
  const start = Date.now() + 500;
  const found = await Promise.all(
    tabs.map((tab) =>
      tab.evaluate(
        async ({ start, begin, count }) => {
          const begun = new Function(`return ${begin}`)();
          while (Date.now() < start) await new Promise((resolve) => setTimeout(resolve, 1));
          const keys = [];
          // In waves: all of a wave at once, and the waves start together in both tabs.
          for (let i = 0; i < count; i += 50) {
            const wave = Array.from({ length: 50 }, (_, j) => begun(`intent/${i + j}`));
            keys.push(...(await Promise.all(wave)));
          }
          return keys;
        },
        { start, begin: begin.toString(), count: INTENTS },
      ),
    ),
  );
  return found[0].filter((key, i) => key !== found[1][i]).length;
}

test(`two tabs agree on ${INTENTS} keys, and each effect happens once`, { timeout: 300_000 }, () =>
  stage(async ({ mock, page }) => {
    const tabs = [await page(), await page()];
    for (const tab of tabs) await openClient(tab, {});
    const disagree = await race(tabs, async (intent) => {
      const operation = await client.operation(intent, { url: "/api/orders", json: { item: intent } });
      (window.begun ??= []).push(operation);
      return operation.key;
    });
    assert.equal(disagree, 0);
    // All of them from both tabs at once, a few at a time as browsers do.
    const outcomes = await Promise.all(
      tabs.map((tab) =>
        tab.evaluate(async () => {
          const states = [];
          const queue = [...begun];
          const worker = async () => {
            for (let next = queue.shift(); next; next = queue.shift()) states.push((await next.send()).state);
          };
          await Promise.all(Array.from({ length: 8 }, worker));
          return states;
        }),
      ),
    );
    assert.deepEqual([...new Set(outcomes.flat())], ["succeeded"]);
    assert.equal(outcomes.flat().length, 2 * INTENTS);
    const { effects, keys } = await mock.ledger();
    assert.equal(keys.length, INTENTS);
    assert.equal(effects.length, INTENTS);
  }),
);

test("control: two tabs on plain localStorage disagree", { timeout: 60_000 }, () =>
  stage(async ({ page }) => {
    const tabs = [await page(), await page()];
    const disagree = await race(tabs, async (intent) => {
      const known = localStorage.getItem(intent);
      if (known) return known;
      const key = crypto.randomUUID();
      localStorage.setItem(intent, key);
      return key;
    });
    assert.ok(disagree > 0, "the naive store never disagreed, so the test above proves nothing");
  }),
);

test("the localStorage journal refuses a second tab, until the first is closed", { timeout: 60_000 }, () =>
  stage(async ({ page }) => {
    const [first, second] = [await page(), await page()];
    await openClient(first, { store: "localstorage" });
    assert.equal(await first.evaluate(() => client.grade), "reload");
    const refusal = await second.evaluate(async () => {
      const { Client } = await import("/dist/index.js");
      const error = await Client.open({ application: "shop", store: "localstorage" }).catch((error) => error);
      return { kind: error.kind, reason: error.reason, nothing: error.nothingWasSent };
    });
    assert.deepEqual(refusal, { kind: "journal", reason: "open-elsewhere", nothing: true });
    await first.close();
    await openClient(second, { store: "localstorage" });
  }),
);

test("a closed tab's operation is taken over at once", { timeout: 60_000 }, () =>
  stage(async ({ mock, page }) => {
    const [first, second] = [await page(), await page()];
    await mock.gate("hold");
    await openClient(first, {});
    await openClient(second, {});
    const key = await first.evaluate(async () => {
      const operation = await client.operation("cart/1", { url: "/api/orders", json: { item: "tea" } });
      operation.send().catch(() => {});
      return operation.key;
    });
    await until(async () => (await mock.posts()).length === 1, "the first request");
    await first.close();
    await mock.gate("release");
    const started = Date.now();
    const outcome = await second.evaluate(async () => {
      const [{ outcome, error }] = await client.resumeAll();
      return { state: outcome?.state, key: outcome?.key, error: error && String(error) };
    });
    assert.deepEqual(outcome, { state: "succeeded", key, error: undefined });
    assert.ok(Date.now() - started < 10_000);
    assert.equal((await mock.ledger()).effects.length, 1);
  }),
);

test("a frozen tab's operation is taken over within 30 s, and its late write bounces", { timeout: 120_000 }, () =>
  stage(async ({ mock, browser, page }) => {
    const [first, second] = [await page(), await page()];
    await mock.gate("hold");
    await openClient(first, { policy: { attemptTimeout: 60_000, giveUpAfter: 120_000 } });
    await openClient(second, {});
    const key = await first.evaluate(async () => {
      const operation = await client.operation("cart/1", { url: "/api/orders", json: { item: "tea" } });
      window.sending = operation.send().catch((error) => ({ state: error.kind }));
      return operation.key;
    });
    await until(async () => (await mock.posts()).length === 1, "the first request");
    const session = await browser.context.newCDPSession(first);
    // A debugger freezes a tab that is in view, which the browser itself would not: its lock is held,
    // and not one of its timers and answers is heard.
    await session.send("Debugger.enable");
    const paused = new Promise((resolve) => session.once("Debugger.paused", resolve));
    await session.send("Debugger.pause");
    await paused;
    const frozen = Date.now();
    await mock.gate("release");
    const outcome = await second.evaluate(async () => {
      const steps = [];
      const [{ outcome, error }] = await client.resumeAll({ onProgress: (step) => steps.push(step.state) });
      return { state: outcome?.state, key: outcome?.key, joined: steps.includes("joined"), error: error && String(error) };
    });
    const took = Date.now() - frozen;
    assert.deepEqual(outcome, { state: "succeeded", key, joined: true, error: undefined });
    assert.ok(took < 30_000, `took ${took} ms`);
    assert.ok(took > 15_000, `took over after ${took} ms from a tab that was alive`);
    await session.send("Debugger.resume");
    await session.send("Debugger.disable");
    assert.equal(await first.evaluate(async () => (await sending).state), "succeeded");
    assert.equal((await mock.ledger()).effects.length, 1);
  }),
);

test("every tab hears of the progress of every other", { timeout: 60_000 }, () =>
  stage(async ({ page }) => {
    const [first, second] = [await page(), await page()];
    await openClient(first, {});
    await openClient(second, {});
    await second.evaluate(() => {
      window.heard = [];
      client.subscribe(({ state, intent, here }) => heard.push({ state, intent, here }));
    });
    await first.evaluate(async () => {
      const operation = await client.operation("cart/1", { url: "/api/orders", json: { item: "tea" } });
      await operation.send();
    });
    const last = await until(
      () => second.evaluate(() => heard.find(({ state }) => state === "succeeded")),
      "the other tab's news",
    );
    assert.deepEqual(last, { state: "succeeded", intent: "cart/1", here: false });
  }),
);
