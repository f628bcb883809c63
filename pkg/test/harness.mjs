// A mock server, a server for pages in front of it, and a real browser.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import http from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { after } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

export const here = path.dirname(fileURLToPath(import.meta.url));
export const pkg = path.dirname(here);
const MOCK = process.env.SAMEKEY_MOCK;
const BROWSER = process.env.SAMEKEY_BROWSER ?? "/usr/bin/chromium";
const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".wasm": "application/wasm" };

/** Waits until `look` returns something truthy. */
export async function until(look, what, limit = 30_000) {
  const end = Date.now() + limit;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited ${limit} ms in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** The mock server on a free port. */
export async function startMock(...options) {
  if (!MOCK) throw new Error("SAMEKEY_MOCK must name the mock server's program: run `cargo xtask pages`");
  const folder = await mkdtemp(path.join(tmpdir(), "samekey-mock-"));
  const portFile = path.join(folder, "port");
  const child = spawn(MOCK, ["--port", "0", "--port-file", portFile, ...options], { stdio: ["ignore", "ignore", "inherit"] });
  const port = await until(async () => {
    if (child.exitCode !== null) throw new Error(`the mock ended with ${child.exitCode}`);
    return readFile(portFile, "utf8").then((text) => Number(text), () => 0);
  }, "the mock's port");
  const url = `http://127.0.0.1:${port}`;
  const control = async (what, body, method = "POST") => {
    const answer = await fetch(`${url}/_mock/${what}`, { method, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${what}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  };
  return {
    url,
    port,
    fault: (rule) => control("faults", { rule }),
    calm: () => control("faults", {}, "DELETE"),
    gate: (state) => control("gate", { state }),
    ledger: async () => (await fetch(`${url}/_mock/ledger`)).json(),
    /** The keyed requests that the server read. */
    async posts() {
      return (await this.ledger()).requests.filter((request) => request.key && request.method !== "OPTIONS");
    },
    async stop() {
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
      await rm(folder, { recursive: true });
    },
  };
}

/**
 * Serves pages, and the mock under /api. Every connection is used once: browsers send a POST again by
 * themselves when a reused connection drops, and tests could not tell that from a retry.
 */
export async function startSite(mock, folders = {}) {
  const roots = { "/dist/": path.join(pkg, "dist"), "/test/": here, ...folders };
  const server = http.createServer(async (request, response) => {
    response.setHeader("Connection", "close");
    const { pathname, search } = new URL(request.url, "http://site");
    if (pathname.startsWith("/api/")) return relay(request, response, mock.port, pathname.slice(4) + search);
    if (pathname === "/api-url") return response.end(mock.url);
    if (pathname === "/favicon.ico") return response.writeHead(204).end();
    if (pathname === "/") {
      response.setHeader("Content-Type", "text/html");
      return response.end("<!doctype html><title>samekey</title><p id=status></p>");
    }
    const prefix = Object.keys(roots).find((prefix) => pathname.startsWith(prefix));
    try {
      if (!prefix) throw new Error("no such folder");
      const file = path.join(roots[prefix], path.normalize(pathname.slice(prefix.length) || "index.html"));
      const content = await readFile(file);
      response.setHeader("Content-Type", TYPES[path.extname(file)] ?? "text/plain");
      response.setHeader("Cache-Control", "no-store");
      response.end(content);
    } catch {
      response.writeHead(404).end();
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    async stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}

function relay(request, response, port, target) {
  const headers = { ...request.headers, connection: "close" };
  const upstream = http.request({ host: "127.0.0.1", port, path: target, method: request.method, headers, agent: false });
  upstream.on("response", (answer) => {
    const { connection: _, "keep-alive": __, ...rest } = answer.headers;
    response.writeHead(answer.statusCode, rest);
    answer.on("error", () => response.destroy());
    answer.pipe(response);
  });
  upstream.on("error", () => response.destroy());
  request.pipe(upstream);
}

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
