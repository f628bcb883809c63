import { readFile } from "node:fs/promises";
import { source } from "./load.js";

source.read = () => readFile(new URL("./samekey.wasm.lzma", import.meta.url));

export * from "./index.js";
