import { call } from "../wasm/samekey_bg.js";
import { SamekeyError } from "./errors.js";
import { pack, random, unpack, type Value } from "./scripts.js";
import { trouble } from "./told.js";

// What Rust is asked, as it counts.
export const [OPEN, BEGIN, JOIN, VIEW, OUTCOME, DECREE, REAP, REFERENCE, DRIVE, STEP, END] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10] as const;

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
