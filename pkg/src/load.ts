import { SamekeyError } from "./errors.js";
import { unpacked } from "./unpack.js";

/** What the module is: one function of bytes, and its memory. */
interface Module {
  memory: WebAssembly.Memory;
  call(at: number, length: number): [at: number, length: number];
  __wbindgen_malloc(length: number, align: number): number;
  __wbindgen_free(at: number, length: number, align: number): void;
}

let loading: Promise<void> | undefined;
let rust: Module;

/** Where the module is read from; Node reads a file. */
export const source = {
  async read(): Promise<Uint8Array> {
    const url = new URL("samekey.wasm.lzma", import.meta.url);
    const answer = await fetch(url);
    if (!answer.ok) throw new Error(`${url} answered ${answer.status}`);
    return new Uint8Array(await answer.arrayBuffer());
  },
};

async function begin(): Promise<void> {
  const { instance } = await WebAssembly.instantiate(unpacked(await source.read()));
  rust = instance.exports as unknown as Module;
}

/** Loads the module once. */
export function load(): Promise<void> {
  loading ??= begin().catch((error: unknown) => {
    loading = undefined;
    const advice = "serve samekey.wasm.lzma beside the script, and allow 'wasm-unsafe-eval' in a Content-Security-Policy";
    throw new SamekeyError({ kind: "module", message: `the WebAssembly module cannot be loaded: ${error}; ${advice}` });
  });
  return loading;
}

// Anew for each use: it moves when it grows.
const memory = () => new Uint8Array(rust.memory.buffer);

/** Hands bytes to the module, which frees them, and takes its own. */
export function call(asked: Uint8Array): Uint8Array {
  const given = rust.__wbindgen_malloc(asked.length, 1);
  memory().set(asked, given);
  const [at, length] = rust.call(given, asked.length);
  const answer = memory().slice(at, at + length);
  rust.__wbindgen_free(at, length, 1);
  return answer;
}
