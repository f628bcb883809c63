import { call, free, look, samekey_asking, samekey_pack, samekey_unpack } from "../wasm/samekey_bg.js";

/** What crosses to Rust and back, in lists. */
export type Value = undefined | null | boolean | number | string | Uint8Array;

const pack = samekey_pack as (values: Value[]) => Uint8Array;
const unpack = samekey_unpack as (bytes: Uint8Array) => any[];
const asking = samekey_asking as (
  perform: (leash: AbortController, what: string, ...values: any[]) => Promise<Value[]>,
) => (given: Uint8Array) => number;

interface Call {
  step?: (values: any[]) => void;
  stopped?: Promise<void>;
  done: (values: any[]) => void;
  failed: (values: any[]) => void;
}

const calls = new Map<number, Call>();
let last = 0;

/** Callbacks for credentials, by number: names and values, in turn. */
export const credentials: ((origin: string, scope: string, refresh: boolean) => Promise<string[]>)[] = [];

/** What Rust has done here: a promise each. */
export const ask = asking(async (_, what, number: number, ...values) => {
  if (what === "credentials") return credentials[number]!(...(values as [string, string, boolean]));
  await calls.get(number)?.stopped;
  return [];
});

/** How a call went: 0 well, 1 badly, 2 it goes on. */
export function tell(number: number, how: number, told: Uint8Array): void {
  const { step, done, failed } = calls.get(number)!;
  const values = unpack(told);
  if (how === 2) {
    step?.(values);
  } else {
    calls.delete(number);
    (how ? failed : done)(values);
  }
}

/** A thing that Rust holds, by its number; 0 is nothing yet. */
export class Raw {
  constructor(private readonly number = 0) {
    if (number) registry.register(this, number);
  }

  /** Has Rust do something with it; rejects with the values of the refusal. */
  call(given: Value[], more: Pick<Call, "step" | "stopped"> = {}): Promise<any[]> {
    const number = ++last;
    return new Promise((done, failed) => {
      calls.set(number, { ...more, done, failed });
      call(pack([number, this.number, ...given]));
    });
  }

  look(atOutcome: boolean): any[] {
    return unpack(look(this.number, atOutcome));
  }
}

const registry = new FinalizationRegistry<number>(free);
