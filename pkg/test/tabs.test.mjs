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
  stage(async ({ mock, site, page }) => {
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
    // Both tabs wanted to send each of them: one did, and the other read again what had become of it.
    assert.equal((await mock.posts()).length, INTENTS);
    assert.equal(site.together.most, 1);
  }),
);

/** The same payments from two tabs at once, on a server that takes its time over each. */
async function crowd(tabs, mock, open) {
  await mock.fault("slow-work:150");
  for (const tab of tabs) await open(tab);
  const start = Date.now() + 300;
  const states = await Promise.all(
    tabs.map((tab) =>
      tab.evaluate(async (start) => {
        while (Date.now() < start) await new Promise((resolve) => setTimeout(resolve, 1));
        const pay = async (number) => {
          const adoptKey = `3c9d1f5a-0000-4000-8000-${String(number).padStart(12, "0")}`;
          const operation = await client.operation(`cart/${number}`, { url: "/api/orders", json: { item: "tea" }, adoptKey });
          return (await operation.send()).state;
        };
        const states = [];
        // Few at a time: a browser has six connections to one server, for all its tabs.
        for (let round = 0; round < 6; round++) states.push(...(await Promise.all([pay(2 * round), pay(2 * round + 1)])));
        return states;
      }, start),
    ),
  );
  assert.deepEqual([...new Set(states.flat())], ["succeeded"]);
  assert.equal((await mock.ledger()).effects.length, 12);
}

test("only one of two tabs sends at a time", { timeout: 60_000 }, () =>
  stage(async ({ mock, site, page }) => {
    await crowd([await page(), await page()], mock, (tab) => openClient(tab, {}));
    assert.equal(site.together.most, 1, "two requests of one key were under way at once");
    assert.equal((await mock.posts()).length, 12);
  }),
);

test("control: two tabs without a common journal do send at once", { timeout: 60_000 }, () =>
  stage(async ({ mock, site, page }) => {
    await crowd([await page(), await page()], mock, (tab) => openClient(tab, { store: "memory" }));
    assert.equal(site.together.most, 2, "they never met, so the test above proves nothing");
  }),
);

test("a tab that began and does not send lets another tab send", { timeout: 60_000 }, () =>
  stage(async ({ mock, page }) => {
    const [first, second] = [await page(), await page()];
    for (const tab of [first, second]) await openClient(tab, {});
    const tea = { url: "/api/orders", json: { item: "tea" } };
    const key = await first.evaluate(async (tea) => (window.held = await client.operation("cart/1", tea)).key, tea);
    const ended = await second.evaluate(async (tea) => {
      const { state, key, attempts } = await (await client.operation("cart/1", tea)).send();
      return { state, key, attempts };
    }, tea);
    assert.deepEqual(ended, { state: "succeeded", key, attempts: 1 });
    // The first hears of it, and has nothing left to send.
    assert.equal(await first.evaluate(async () => (await held.send()).state), "succeeded");
    assert.equal((await mock.posts()).length, 1);
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

for (const event of ["online", "storage", "pageshow", "visibilitychange"]) {
  test(`a page that resumes looks for what was left open: ${event}`, { timeout: 60_000 }, () =>
    stage(async ({ mock, page }) => {
      const [first, second] = [await page(), await page()];
      // Without the look that comes by itself now and then.
      await second.addInitScript(() => {
        const every = window.setInterval;
        window.setInterval = (work, time) => (time === 10_000 ? 0 : every(work, time));
      });
      await second.reload();
      await openClient(second, {});
      assert.equal(await second.evaluate(async () => (await client.resumeAll()).length), 0);
      await openClient(first, {});
      await first.evaluate(async () => {
        window.left = await client.operation("cart/1", { url: "/api/orders", json: { item: "tea" } });
      });
      await first.close();
      const open = (event) =>
        second.evaluate(async (event) => {
          const target = event === "visibilitychange" ? document : window;
          target.dispatchEvent(new Event(event));
          return (await client.list("unfinished")).length;
        }, event);
      assert.equal(await open("resize"), 1, "it was sent without a reason");
      assert.equal((await mock.posts()).length, 0);
      await open(event);
      await until(async () => (await mock.ledger()).effects.length === 1, "the request");
    }),
  );
}

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
