import { call } from "../wasm/samekey_bg.js";
import { SamekeyError } from "./errors.js";
import { pack, random, unpack, type Value } from "./scripts.js";
import { trouble } from "./told.js";

// What Rust is asked, as it counts.
export const [OPEN, BEGIN, JOIN, VIEW, OUTCOME, DECREE, REAP, REFERENCE, DRIVE, STEP, END] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10] as const;

/** Asks Rust, which decides and does not wait. */
export function ask(what: number, client: number, ...values: Value[]): any[] {
  const [refused, ...said] = unpack(call(pack([what, client, Date.now(), performance.now(), random(), ...values])));
  if (refused) throw new SamekeyError(trouble(said));
  return said;
}
