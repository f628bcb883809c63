// The packed module, as the package unpacks it.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { before, test } from "node:test";
import { transform } from "esbuild";
import { pkg } from "./harness.mjs";

let unpacked;
let packed;
let module;

before(async () => {
  const source = await readFile(path.join(pkg, "src/unpack.ts"), "utf8");
  const { code } = await transform(source, { loader: "ts", format: "esm" });
  ({ unpacked } = await import(`data:text/javascript,${encodeURIComponent(code)}`));
  packed = new Uint8Array(await readFile(path.join(pkg, "dist/samekey.wasm.lzma")));
  module = new Uint8Array(await readFile(path.join(pkg, "wasm/optimised.wasm")));
});

test("the module is unpacked as it was packed", async () => {
  assert.deepEqual(unpacked(packed), module);
  await WebAssembly.compile(unpacked(packed));
});

test("one that was cut off on its way is no module, and no endless loop", async () => {
  for (const part of [0.1, 0.5, 0.99]) {
    const cut = packed.slice(0, packed.length * part);
    await assert.rejects(WebAssembly.compile(unpacked(cut)), WebAssembly.CompileError);
  }
});
