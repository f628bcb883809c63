// The tarball as users get it: in a plain page, in a Vite build and in Node.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { pkg, startProfile, startMock, startSite } from "./harness.mjs";

let folder;
let mock;
const LIMIT = { timeout: 120_000 };
const run = (program, args, cwd) => execFileSync(program, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });

before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "samekey-package-"));
  const [{ filename }] = JSON.parse(run("npm", ["pack", "--json", "--pack-destination", folder], pkg));
  await writeFile(path.join(folder, "package.json"), JSON.stringify({ name: "empty", private: true, type: "module" }));
  run("npm", ["install", "--no-audit", "--no-fund", "--offline", `./${filename}`], folder);
  mock = await startMock();
});

after(async () => {
  await mock?.stop();
  await rm(folder, { recursive: true, force: true });
});

const PAGE = `
  import { Client } from "SAMEKEY";
  const client = await Client.open({ application: "shop" });
  const operation = await client.operation("cart/1", { url: "/api/orders", json: { item: "tea" } });
  const outcome = await operation.send();
  document.title = outcome.state + " " + client.grade;
`;

async function title(folders) {
  const site = await startSite(mock, folders);
  const browser = await startProfile();
  try {
    const page = await browser.page(`${site.url}/app/index.html`);
    await page.waitForFunction(() => document.title !== "app", undefined, { timeout: 30_000 });
    return await page.title();
  } finally {
    await browser.stop();
    await site.stop();
  }
}

test("a plain page with <script type=module>", LIMIT, async () => {
  const app = path.join(folder, "plain");
  await mkdir(app);
  const script = PAGE.replace("SAMEKEY", "/node_modules/samekey/dist/index.js");
  await writeFile(path.join(app, "index.html"), `<!doctype html><title>app</title><script type="module">${script}</script>`);
  const found = await title({ "/app/": app, "/node_modules/": path.join(folder, "node_modules") });
  assert.equal(found, "succeeded device");
});

test("a Vite build", LIMIT, async () => {
  const app = path.join(folder, "vite");
  await mkdir(app);
  await writeFile(path.join(app, "index.html"), `<!doctype html><title>app</title><script type="module" src="./main.js"></script>`);
  await writeFile(path.join(app, "main.js"), PAGE.replace("SAMEKEY", "samekey"));
  run("npm", ["install", "--no-audit", "--no-fund", "vite@8.3.8"], folder);
  const vite = path.join(folder, "node_modules/vite/bin/vite.js");
  run(process.execPath, [vite, "build", "--base", "/app/", "--logLevel", "warn"], app);
  assert.equal(await title({ "/app/": path.join(app, "dist") }), "succeeded device");
});

test("Node, with the journal in memory", LIMIT, async () => {
  const entry = pathToFileURL(path.join(folder, "node_modules/samekey/dist/node.js"));
  const program = `
    import { Client, SamekeyError } from "samekey";
    if (import.meta.resolve("samekey") !== ${JSON.stringify(entry.href)}) throw new Error(import.meta.resolve("samekey"));
    const refused = await Client.open({ application: "shop" }).catch((error) => error);
    if (!(refused instanceof SamekeyError) || refused.kind !== "journal") throw refused;
    const client = await Client.open({ application: "shop", store: "memory" });
    const operation = await client.operation("cart/1", { url: "${mock.url}/orders", json: { item: "tea" } });
    console.log((await operation.send()).state, client.grade);
  `;
  await writeFile(path.join(folder, "main.mjs"), program);
  assert.equal(run(process.execPath, ["main.mjs"], folder).trim(), "succeeded none");
});

const tsc = path.join(pkg, "node_modules/typescript/bin/tsc");

test("the types are found from the tarball, and a wrong use does not compile", LIMIT, async () => {
  const options = ["--noEmit", "--strict", "--target", "es2022", "--lib", "es2022,dom"];
  const compiles = async (text, module, resolution) => {
    await writeFile(path.join(folder, "use.ts"), `import { Client } from "samekey";\n${text}\n`);
    try {
      execFileSync(process.execPath, [tsc, ...options, "--module", module, "--moduleResolution", resolution, "use.ts"], { cwd: folder });
      return true;
    } catch {
      return false;
    }
  };
  for (const [module, resolution] of [["nodenext", "nodenext"], ["esnext", "bundler"]]) {
    assert.ok(await compiles(`export const client = Client.open({ application: "shop" });`, module, resolution), resolution);
    assert.ok(!(await compiles(`export const client = Client.open({ application: 7 });`, module, resolution)), resolution);
  }
});

test("the types say what is there, and refuse what is not", LIMIT, () => {
  run(process.execPath, [tsc, "--project", "test/types"], pkg);
});
