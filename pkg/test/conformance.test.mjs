// Both stores pass the suite that every journal must pass, in a real browser.
import assert from "node:assert/strict";
import path from "node:path";
import { test } from "node:test";
import { here, startProfile, startMock, startSite } from "./harness.mjs";

async function rules(local) {
  const mock = await startMock();
  const site = await startSite(mock, { "/conformance/": path.join(here, "dist") });
  const browser = await startProfile();
  try {
    const page = await browser.page(site.url);
    const report = await page.evaluate(async (local) => {
      const { default: init, conformance, samekey_connect } = await import("/conformance/samekey.js");
      samekey_connect(await init());
      const damageRow = async (name, slot) => {
        const database = await new Promise((resolve, reject) => {
          const opening = indexedDB.open(name);
          opening.onsuccess = () => resolve(opening.result);
          opening.onerror = () => reject(opening.error);
        });
        const tx = database.transaction("entries", "readwrite");
        const entries = tx.objectStore("entries");
        const getting = entries.get(slot);
        getting.onsuccess = () => {
          const row = getting.result;
          row.frozen[row.frozen.length >> 1] ^= 1;
          entries.put(row);
        };
        await new Promise((resolve) => (tx.oncomplete = resolve));
        database.close();
        return true;
      };
      const damageItem = async (name, slot) => {
        const item = Object.keys(localStorage).find((item) => item.startsWith(`samekey:1:${name}:${slot}\0`));
        const value = localStorage.getItem(item);
        const middle = value.length >> 1;
        const altered = String.fromCharCode(value.charCodeAt(middle) ^ 1);
        localStorage.setItem(item, value.slice(0, middle) + altered + value.slice(middle + 1));
        return true;
      };
      return conformance(local, `suite-${local}`, local ? damageItem : damageRow);
    }, local);
    return report.split("\n");
  } finally {
    await browser.stop();
    await site.stop();
    await mock.stop();
  }
}

for (const [store, local] of [["IndexedDB", false], ["localStorage", true]]) {
  test(`${store} conforms`, { timeout: 120_000 }, async (t) => {
    const report = await rules(local);
    assert.ok(report.length >= 20, `only ${report.length} rules ran`);
    for (const line of report) {
      await t.test(`${store}: ${line.replace(/^(not )?ok /, "").split(":")[0]}`, () => {
        assert.match(line, /^ok /);
      });
    }
  });
}
