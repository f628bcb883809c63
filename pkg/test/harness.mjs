// A real browser, and all that a test of a page needs.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after } from "node:test";
import { chromium } from "playwright-core";
import { startMock, startSite } from "./servers.mjs";

export { here, pkg, startMock, startSite, until } from "./servers.mjs";

const BROWSER = process.env.SAMEKEY_BROWSER ?? "/usr/bin/chromium";
const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];

const LAUNCH = {
  executablePath: BROWSER,
  args: FLAGS,
  ignoreDefaultArgs: ["--headless=old", "--disable-back-forward-cache"],
  headless: true,
  chromiumSandbox: false,
};

const around = (context, folder, stop) => ({
  context,
  folder,
  async page(url) {
    const page = await context.newPage();
    page.on("pageerror", (error) => console.error("page:", error.message));
    page.on("console", (message) => message.type() === "error" && process.env.SAMEKEY_LOUD && console.error("console:", message.text()));
    await page.goto(url);
    return page;
  },
  stop,
});

/** A browser of its own on a profile in a folder, for what outlives the browser. */
export async function startBrowser(profile) {
  const folder = profile ?? (await mkdtemp(path.join(tmpdir(), "samekey-profile-")));
  const context = await chromium.launchPersistentContext(folder, LAUNCH);
  return around(context, folder, async () => {
    await context.close();
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  });
}

let shared;
after(async () => (await shared)?.close());

/** An empty profile in the browser that all tests of a file share: its start is most of a short test. */
export async function startProfile() {
  shared ??= chromium.launch(LAUNCH);
  const context = await (await shared).newContext();
  return around(context, undefined, () => context.close());
}

/** Loads the package into a page and opens a client there as `client`. */
export async function openClient(page, options) {
  await page.evaluate(async (options) => {
    const samekey = await import("/dist/index.js");
    window.samekey = samekey;
    window.steps = [];
    window.client = await samekey.Client.open({ application: "shop", ...options });
  }, options);
}

/** Everything at once; stopped after `use`, whatever happens. */
export async function stage(use, { mockOptions = [] } = {}) {
  const mock = await startMock(...mockOptions);
  const site = await startSite(mock);
  const browser = await startProfile();
  try {
    return await use({ mock, site, browser, page: () => browser.page(site.url) });
  } finally {
    await browser.stop();
    await site.stop();
    await mock.stop();
  }
}
