// The demo shop, used as a customer would, at the width of a phone and of a desk.
import assert from "node:assert/strict";
import path from "node:path";
import { test } from "node:test";
import { pkg, startProfile, startMock, startSite, until } from "./harness.mjs";

const WIDTHS = { phone: { width: 390, height: 844 }, desk: { width: 1280, height: 800 } };
/** A folder for pictures to look at; none are taken without it. */
const PICTURES = process.env.SAMEKEY_PICTURES;

for (const [name, viewport] of Object.entries(WIDTHS)) {
  test(`the demo shop on a ${name}`, { timeout: 120_000 }, async () => {
    const mock = await startMock();
    const site = await startSite(mock, { "/shop/": path.join(pkg, "../examples/checkout_page") });
    const browser = await startProfile();
    try {
      const page = await browser.page(`${site.url}/shop/`);
      await page.setViewportSize(viewport);
      const shown = (state) => page.waitForSelector(`#state[data-state=${state}]`, { timeout: 60_000 });
      const picture = async (what) => {
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(overflow <= 0, `${what}: ${overflow} pixels too wide`);
        if (PICTURES) await page.screenshot({ path: path.join(PICTURES, `${name}-${what}.png`), fullPage: true });
      };
      const reference = () => page.textContent("#reference");
      const effects = async () => (await mock.ledger()).effects.length;
      await page.waitForSelector("#ledger", { state: "attached" });
      await picture("cart");

      // The answer is lost: it says so, counts down, and the payment is found on the second try.
      await mock.fault("drop-after-commit*1");
      assert.equal(await page.getByRole("button", { name: /^Pay/ }).count(), 1);
      await page.click("#pay");
      await page.waitForFunction(() => /Trying again/.test(document.getElementById("headline").textContent));
      const first = await reference();
      assert.match(first, /^[0-9A-F]{4}-[0-9A-F]{4}-[0-9A-F]{4}-.$/);
      await picture("trying-again");
      await shown("done");
      assert.equal(await reference(), first);
      assert.equal(await effects(), 1);
      await until(async () => (await page.textContent("#ledger")).includes(first), "the ledger");
      await picture("paid");

      // Closed in the middle: the next load finishes it under the same reference.
      await page.click("#next");
      await page.waitForSelector("#state[data-state=idle]");
      await mock.gate("hold");
      await page.click("#pay");
      await until(async () => (await mock.posts()).length > 2, "the held request");
      const second = await reference();
      await picture("paying");
      assert.notEqual(second, first);
      await page.reload();
      await page.waitForSelector("#banner:not([hidden])");
      assert.equal(await reference(), second);
      await picture("reloaded");
      await mock.gate("release");
      await shown("done");
      assert.equal(await effects(), 2);

      // Nothing ever comes back: the customer is told what to do, and checking again is safe.
      await page.click("#next");
      await page.waitForSelector("#state[data-state=idle]");
      await mock.fault("drop-after-commit");
      await page.click("#pay");
      await shown("unknown");
      const third = await reference();
      await picture("unknown");
      assert.equal(await effects(), 3);
      assert.ok(await page.getByText("Please do not pay again").isVisible());
      assert.ok(!(await page.locator("#pay").isVisible()), "the button to pay is still there");
      await mock.calm();
      await page.click("#again");
      await shown("done");
      assert.equal(await reference(), third);
      assert.equal(await effects(), 3);

      // A refusal is final; another card is another payment.
      await page.click("#next");
      await page.waitForSelector("#state[data-state=idle]");
      await page.click("text=Decline the card");
      await until(async () => (await page.textContent("#faults")).includes("402"), "the fault");
      // By keyboard, as some do.
      await page.focus("#pay");
      await page.keyboard.press("Enter");
      await shown("declined");
      await picture("declined");
      assert.equal(await effects(), 3);
      assert.equal(await page.evaluate(() => document.activeElement.id), "state", "the focus is where the news is");
      await page.click("text=Try another card");
      await page.waitForSelector("#state[data-state=idle]");
      await page.click("#pay");
      await shown("done");
      assert.equal(await effects(), 4);
    } finally {
      await browser.stop();
      await site.stop();
      await mock.stop();
    }
  });
}
