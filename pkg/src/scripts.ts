/* The scripts that the library's own browser half uses too, with their types. */
// @ts-ignore: a script
import * as border from "../../src/seam/border.js";
// @ts-ignore: a script
import * as store from "../../src/journal/browser/store.js";
// @ts-ignore: a script
import * as page from "../../src/platform/web/page.js";

/** What crosses to Rust and back, in lists. */
export type Value = undefined | null | boolean | number | string | Uint8Array;

export const pack: (values: Value[]) => Uint8Array = border.pack;
export const unpack: (bytes: Uint8Array) => any[] = border.unpack;

/** Slot, name, key, frozen, progress, revision, gone: as Rust reads it. */
export type Row = [number, string, string, Uint8Array, Uint8Array, number, boolean];

/** One open store of rows; what goes wrong is thrown as { kind, message }. */
export interface Store {
  owner: Uint8Array;
  grade: number;
  /** The slot of the new row, or the row that is there. */
  add(...values: Value[]): Promise<number | Row>;
  swap(...values: Value[]): Promise<boolean>;
  get(slot: number, key: string): Promise<Row | []>;
  some(open: boolean, scope?: string): Promise<{ gone: boolean }[]>;
  remove(slot: number): Promise<void>;
  wipe(scope: string): Promise<number>;
  liveness(owner: Uint8Array): Promise<number>;
  close(): Promise<void>;
}

/** What a request to IndexedDB brings; and the end of a transaction, as durable as was asked for. */
export const settled: <T>(request: IDBRequest<T>) => Promise<T> = store.settled;
export const complete: (transaction: IDBTransaction) => Promise<void> = store.complete;
/** A `Storage` that forgets. */
export const memory: () => Storage = store.memory;
export const told: (row: object) => Row = store.told;
export const open: (kind: string, name: string) => Promise<Store> = store.open;

export const sleep: (leash: AbortController, wait: number) => Promise<void> = page.sleep;
/** Sends once; see the script. */
export const exchange: (leash: AbortController, ...values: Value[]) => Promise<Value | Value[]> = page.exchange;
export const random: () => Uint8Array | undefined = page.random;
