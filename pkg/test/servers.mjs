// A mock server, and a server for pages in front of it.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import http from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

export const here = path.dirname(fileURLToPath(import.meta.url));
export const pkg = path.dirname(here);
const MOCK = process.env.SAMEKEY_MOCK;
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".lzma": "application/octet-stream" };

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
  const cuts = [];
  const together = new Together();
  const roots = { "/dist/": path.join(pkg, "dist"), "/test/": here, ...folders };
  const server = http.createServer(async (request, response) => {
    response.setHeader("Connection", "close");
    const { pathname, search, searchParams } = new URL(request.url, "http://site");
    if (pathname.startsWith("/api/")) return relay(request, response, mock.port, pathname.slice(4) + search, { cuts, together });
    if (pathname === "/api-url") return response.end(mock.url);
    if (pathname === "/favicon.ico") return response.writeHead(204).end();
    const policy = pathname === "/strict" && searchParams.get("policy");
    if (policy) response.setHeader("Content-Security-Policy", policy);
    if (pathname === "/worker.js") return response.setHeader("Content-Type", "text/javascript").end(await readFile(path.join(here, "worker.js")));
    if (pathname === "/" || policy) {
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
      response.setHeader("Access-Control-Allow-Origin", "*");
      response.end(content);
    } catch {
      response.writeHead(404).end();
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    /** What is left of the next answers of the mock: these bytes, and then the connection ends. */
    cuts,
    together,
    async stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** How many requests of one key were under way at the same time, at the most. */
class Together {
  now = new Map();
  most = 0;

  enter(key, response) {
    if (!key) return;
    const count = (this.now.get(key) ?? 0) + 1;
    this.now.set(key, count);
    this.most = Math.max(this.most, count);
    response.once("close", () => this.now.set(key, this.now.get(key) - 1));
  }
}

function relay(request, response, port, target, { cuts, together }) {
  together.enter(request.headers["idempotency-key"], response);
  const headers = { ...request.headers, connection: "close" };
  const upstream = http.request({ host: "127.0.0.1", port, path: target, method: request.method, headers, agent: false });
  upstream.on("response", (answer) => {
    if (cuts.length > 0) {
      answer.resume();
      return response.socket.end(cuts.shift());
    }
    const { connection: _, "keep-alive": __, ...rest } = answer.headers;
    response.writeHead(answer.statusCode, rest);
    answer.on("error", () => response.destroy());
    answer.pipe(response);
  });
  upstream.on("error", () => response.destroy());
  request.pipe(upstream);
}
