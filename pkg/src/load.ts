import * as rust from "../wasm/samekey_bg.js";
import { SamekeyError } from "./errors.js";

let loading: Promise<void> | undefined;

/** Where the module is read from; Node reads a file. */
export const source = {
  async read(): Promise<BufferSource> {
    const url = new URL("samekey_bg.wasm", import.meta.url);
    const answer = await fetch(url);
    if (!answer.ok) throw new Error(`${url} answered ${answer.status}`);
    return answer.arrayBuffer();
  },
};

async function begin(): Promise<void> {
  const { __wbg_set_wasm: bind, ...functions } = rust as any;
  const { instance } = await WebAssembly.instantiate(await source.read(), { "./samekey_bg.js": functions });
  bind(instance.exports);
}

/** Loads the module once. */
export function load(): Promise<void> {
  loading ??= begin().catch((error: unknown) => {
    loading = undefined;
    const advice = "serve samekey_bg.wasm beside the script, and allow 'wasm-unsafe-eval' in a Content-Security-Policy";
    throw new SamekeyError({ kind: "module", message: `the WebAssembly module cannot be loaded: ${error}; ${advice}` });
  });
  return loading;
}
