import { SamekeyError } from "./errors.js";
import { call } from "./load.js";
import { pack, random, unpack, type Value } from "./scripts.js";
import { trouble } from "./told.js";

// What Rust is asked, as it counts.
export const OPEN = 0;
export const BEGIN = 1;
export const JOIN = 2;
export const VIEW = 3;
export const OUTCOME = 4;
export const DECREE = 5;
export const REAP = 6;
export const REFERENCE = 7;
export const DRIVE = 8;
export const STEP = 9;
export const END = 10;

let broken = false;

/** A module that broke down once knows nothing for certain any more. */
function decide(asked: Uint8Array): Uint8Array {
  try {
    if (!broken) return call(asked);
  } catch {
    broken = true;
  }
  const message = "the WebAssembly module broke down; reload the page, what is open goes on under the same key";
  throw new SamekeyError({ kind: "module", message, unresolved: true, nothingWasSent: false });
}

/** Asks Rust, which decides and does not wait. */
export function ask(what: number, client: number, ...values: Value[]): any[] {
  const [refused, ...said] = unpack(decide(pack([what, client, Date.now(), performance.now(), random(), ...values])));
  if (refused) throw new SamekeyError(trouble(said));
  return said;
}
