// kill -9 of the browser while the server holds the request; a restart on the same profile.
import assert from "node:assert/strict";
import { readFile, readdir, rm } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { openClient, startBrowser, startMock, startSite, until } from "./harness.mjs";

/** The processes of the browser on this profile: ours, and nobody else's. */
async function processesOf(folder) {
  const found = [];
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    const line = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    if (line.includes(`--user-data-dir=${folder}`)) found.push(Number(pid));
  }
  return found;
}

async function killed(folder) {
  for (const pid of await processesOf(folder)) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It went with its parent.
    }
  }
  await until(async () => (await processesOf(folder)).length === 0, "the browser's death");
  for (const lock of ["SingletonLock", "SingletonSocket", "SingletonCookie"]) {
    await rm(path.join(folder, lock), { force: true });
  }
}

/** Pays, kills the browser while the POST is held, restarts, pays again if nothing resumes. */
async function round(store, number) {
  const mock = await startMock();
  const site = await startSite(mock);
  let browser = await startBrowser();
  const { folder } = browser;
  try {
    await mock.gate("hold");
    let page = await browser.page(site.url);
    await openClient(page, { store });
    const intent = `cart/${number}`;
    const key = await page.evaluate(async (intent) => {
      const operation = await client.operation(intent, { url: "/api/payments", json: { amount: 100 } });
      operation.send().catch(() => {});
      return operation.key;
    }, intent);
    await until(async () => (await mock.posts()).length > 0, "the first request");
    await killed(folder);
    await browser.context.close().catch(() => {});
    await mock.gate("release");
    browser = await startBrowser(folder);
    page = await browser.page(site.url);
    await openClient(page, { store });
    const after = await page.evaluate(async (intent) => {
      await client.resumeAll();
      const operation = await client.operation(intent, { url: "/api/payments", json: { amount: 100 } });
      await operation.send();
      return operation.key;
    }, intent);
    return { same: after === key, effects: (await mock.ledger()).effects.length };
  } finally {
    await browser.stop().catch(() => {});
    await site.stop();
    await mock.stop();
  }
}

/** Rounds side by side, each with a browser, a profile and a server of its own: most of a round is waiting. */
const AT_ONCE = 4;

test("IndexedDB: the key survives the kill, 20 of 20", { timeout: 600_000 }, async () => {
  for (let number = 0; number < 20; number += AT_ONCE) {
    const numbers = Array.from({ length: AT_ONCE }, (_, i) => number + i);
    const ended = await Promise.all(numbers.map((number) => round("indexeddb", number)));
    assert.deepEqual(ended, numbers.map(() => ({ same: true, effects: 1 })), `rounds from ${number}`);
  }
});

test("control: localStorage, whose grade does not promise it, loses a key", { timeout: 300_000 }, async () => {
  for (let number = 0; number < 10; number++) {
    const { same, effects } = await round("localstorage", number);
    if (!same) {
      assert.equal(effects, 2, "another key, and so a second effect");
      return;
    }
  }
  assert.fail("localStorage survived every kill, so the test above proves nothing");
});
