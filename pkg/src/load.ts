import init from "../wasm/samekey.js";

let loading: Promise<unknown> | undefined;

/** Where the module is read from; Node reads a file. */
export const source: { read?: () => Promise<BufferSource> } = {};

/** Loads the module once. */
export function load(): Promise<unknown> {
  loading ??= (source.read ? source.read().then((module_or_path) => init({ module_or_path })) : init()).catch(
    (error: unknown) => {
      loading = undefined;
      throw error;
    },
  );
  return loading;
}
