// A page that is reloaded at any step goes on under the same key, and the effect happens once.
import assert from "node:assert/strict";
import { test } from "node:test";
import { openClient, stage, until } from "./harness.mjs";

const QUICK = { base: 120, cap: 400, attemptTimeout: 5_000 };

/** Begins and sends in the page, without waiting for the end. */
const pay = (page, intent) =>
  page.evaluate(async (intent) => {
    const operation = await client.operation(intent, { url: "/api/payments", json: { amount: 100, cart: intent } });
    window.sending = operation.send({ onProgress: (step) => steps.push(step) }).catch((error) => error);
    return { key: operation.key, reference: operation.reference };
  }, intent);

/**
 * Where the reload comes: what the server is told first, and when it is time. `unsent`: how many attempts the journal
 * counts that the server never read. The journal counts one too many rather than one too few: an entry that was begun
 * and may have been sent, or an attempt that was noted when the page went away.
 */
const STEPS = [
  {
    name: "after the begin, before the first byte",
    begin: (page, intent) =>
      page.evaluate(async (intent) => {
        const request = { url: "/api/payments", json: { amount: 100, cart: intent } };
        // Held: a handle that is collected lets its operation go, and says that nothing was sent.
        const operation = (window.held = await client.operation(intent, request));
        return { key: operation.key, reference: operation.reference };
      }, intent),
    due: async () => true,
    unsent: [1],
  },
  {
    name: "while the server holds the request",
    before: (mock) => mock.gate("hold"),
    due: async ({ mine }) => (await mine()).length > 0,
    unsent: [0],
    after: (mock) => mock.gate("release"),
  },
  {
    name: "after the effect, with the answer lost",
    before: (mock) => mock.fault("drop-after-commit*1"),
    due: async ({ mine }) => (await mine()).some((request) => request.events.includes("dropped")),
    unsent: [0, 1],
  },
  {
    name: "while waiting for the next attempt",
    before: (mock) => mock.fault("status:503*1"),
    policy: { ...QUICK, base: 2_000, cap: 4_000 },
    due: ({ page }) => page.evaluate(() => steps.some((step) => step.state === "waiting")),
    unsent: [0, 1],
  },
  {
    name: "right after the end",
    due: ({ page }) => page.evaluate(() => steps.some((step) => step.state === "succeeded")),
    unsent: [0],
  },
];

for (const store of ["indexeddb", "localstorage"]) {
  test(`${store}: 50 reloads, at every step`, { timeout: 300_000 }, () =>
    stage(async ({ mock, page: open }) => {
      const page = await open();
      for (let round = 0; round < 50; round++) {
        const step = STEPS[round % STEPS.length];
        const intent = `cart/${round}`;
        await step.before?.(mock);
        await openClient(page, { store, policy: step.policy ?? QUICK });
        const { key, reference } = await (step.begin ?? pay)(page, intent);
        const mine = async () => (await mock.posts()).filter((request) => request.key === key);
        await until(() => step.due({ page, mine }), `${step.name}, round ${round}`);
        await page.reload();
        await step.after?.(mock);
        await openClient(page, { store, policy: QUICK });
        const ended = await page.evaluate(async (intent) => {
          const resumed = await client.resumeAll();
          const request = { url: "/api/payments", json: { cart: intent, amount: 100 } };
          const operation = await client.operation(intent, request);
          const outcome = await operation.send();
          const { reference, attempts } = operation.summary;
          const errors = resumed.filter(({ error }) => error).map(({ error }) => String(error));
          return { state: outcome.state, key: outcome.key, reference, attempts, errors };
        }, intent);
        const where = `${step.name}, round ${round}`;
        assert.deepEqual(ended.errors, [], where);
        assert.equal(ended.state, "succeeded", where);
        assert.equal(ended.key, key, `${where}: another key`);
        assert.equal(ended.reference, reference, `${where}: another reference`);
        const requests = await mine();
        assert.ok(
          requests.length >= 1 && step.unsent.includes(ended.attempts - requests.length),
          `${where}: the server read ${requests.length} requests, the journal has ${ended.attempts} attempts`,
        );
        assert.equal(new Set(requests.map((request) => request.body_sha256)).size, 1, `${where}: two bodies`);
        const row = (await mock.ledger()).keys.find((row) => row.key === key);
        assert.equal(row.effects, 1, `${where}: ${row.effects} effects`);
        await mock.calm();
      }
      const ledger = await mock.ledger();
      assert.equal(ledger.effects.length, 50, "one effect for each intent, no more");
      assert.equal(ledger.keys.length, 50, "one key for each intent");
    }),
  );
}

test("control: a page that keeps its key nowhere pays twice", { timeout: 60_000 }, () =>
  stage(async ({ mock, page: open }) => {
    const page = await open();
    await mock.fault("drop-after-commit*1");
    for (let load = 0; load < 2; load++) {
      await openClient(page, { store: "memory", policy: { ...QUICK, base: 2_000, cap: 4_000 } });
      await pay(page, "cart/1");
      await until(async () => (await mock.ledger()).effects.length === load + 1, "the effect");
      await page.reload();
    }
    assert.equal((await mock.ledger()).keys.length, 2);
  }),
);
