// Answers that were cut in their head. Over plain HTTP Chromium takes them for whole ones, without an error.
import assert from "node:assert/strict";
import { test } from "node:test";
import { openClient, stage } from "./harness.mjs";

const LIMIT = { timeout: 90_000 };
const QUICK = { base: 120, cap: 400, attemptTimeout: 5_000 };
const DECLINED = { url: "/api/payments", json: { amount: 2_000_000 } };
const PAID = { url: "/api/payments", json: { amount: 100 } };
/** A head without its end, from which nobody can tell that a body was to follow. */
const HALF = "HTTP/1.1 201 Created\r\nDate: Sun, 06 Nov 2033 08:49:37 GMT\r\nConte";

const send = (page, intent, request) =>
  page.evaluate(
    async ({ intent, request }) => {
      const operation = await client.operation(intent, request);
      const { state, status, attempts, body } = await operation.send();
      return { state, status, attempts, whole: body?.length > 0 };
    },
    { intent, request },
  );

test("a refusal cut in its status line is never taken for a success", LIMIT, () =>
  stage(async ({ mock, site, page: open }) => {
    const page = await open();
    await openClient(page, { policy: QUICK });
    for (const head of ["HTTP", "HTTP/1.1 ", "HTTP/1.1 4", "HTTP/1.1 40"]) {
      site.cuts.push(head);
      const ended = await send(page, `cart/${head.length}`, DECLINED);
      assert.deepEqual(ended, { state: "rejected", status: 402, attempts: 2, whole: true }, head);
    }
    assert.equal((await mock.ledger()).effects.length, 0);
  }),
);

test("control: fetch alone calls a refusal of four bytes a success", LIMIT, () =>
  stage(async ({ site, page: open }) => {
    const page = await open();
    site.cuts.push("HTTP");
    const seen = await page.evaluate(async () => {
      const headers = { "Idempotency-Key": crypto.randomUUID(), "Content-Type": "application/json" };
      const answer = await fetch("/api/payments", { method: "POST", headers, body: JSON.stringify({ amount: 2_000_000 }) });
      return [answer.ok, answer.status, await answer.text()];
    });
    assert.deepEqual(seen, [true, 200, ""], "this browser no longer does, and the tests here prove nothing");
  }),
);

test("a success cut where a body was announced is asked for again", LIMIT, () =>
  stage(async ({ mock, site, page: open }) => {
    const page = await open();
    await openClient(page, { policy: QUICK });
    const heads = ["HTTP/1.1 201 Created\r\n", "HTTP/1.1 201 Created\r\nContent-Length: 24\r\n"];
    for (const head of heads) {
      site.cuts.push(head);
      const ended = await send(page, `cart/${head.length}`, PAID);
      assert.deepEqual(ended, { state: "succeeded", status: 201, attempts: 2, whole: true }, head);
    }
    assert.equal((await mock.ledger()).effects.length, heads.length);
  }),
);

for (const [name, complete] of [["a body", "body"], ["a header", { header: "Content-Type" }]]) {
  test(`where every success has ${name}, one without it settles nothing`, LIMIT, () =>
    stage(async ({ mock, site, page: open }) => {
      const page = await open();
      await openClient(page, { policy: QUICK });
      site.cuts.push(HALF);
      const ended = await send(page, "cart/1", { ...PAID, complete });
      assert.deepEqual(ended, { state: "succeeded", status: 201, attempts: 2, whole: true });
      assert.equal((await mock.ledger()).effects.length, 1);

      // After a reload too: it was frozen with the request.
      await page.evaluate(async (request) => void (await client.operation("cart/2", request)), { ...PAID, complete });
      await page.reload();
      await openClient(page, { policy: QUICK });
      site.cuts.push(HALF);
      const resumed = await page.evaluate(async () =>
        (await client.resumeAll()).map(({ outcome }) => [outcome?.state, outcome?.body?.length > 0]),
      );
      assert.deepEqual(resumed, [["succeeded", true]]);
      assert.equal((await mock.ledger()).effects.length, 2);

      // And if a whole one never comes, nobody says that it happened or that it did not.
      site.cuts.push(...Array(6).fill(HALF));
      const unknown = await page.evaluate(
        async (request) => (await client.operation("cart/3", request)).send().catch(({ kind, unresolved }) => ({ kind, unresolved })),
        { ...PAID, complete },
      );
      assert.deepEqual(unknown, { kind: "attention", unresolved: true });
    }),
  );
}

test("control: where the status is enough, half a head passes for an empty success", LIMIT, () =>
  stage(async ({ site, page: open }) => {
    const page = await open();
    await openClient(page, { policy: QUICK });
    site.cuts.push(HALF);
    assert.deepEqual(await send(page, "cart/1", PAID), { state: "succeeded", status: 201, attempts: 1, whole: false });
  }),
);
