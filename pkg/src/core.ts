import { ask, BEGIN, DECREE, DRIVE, END, JOIN, OPEN, OUTCOME, REAP, REFERENCE, STEP, VIEW } from "./border.js";
import { SamekeyError } from "./errors.js";
import { exchange, open, random, sleep, told, unpack, type Row, type Store, type Value } from "./scripts.js";
import { summary, trouble } from "./told.js";
import type { Grade, State, Summary } from "./types.js";

// What a drive asks for, as Rust counts.
const LOAD = 0;
const LIVENESS = 1;
const SWAP = 2;
const WAIT = 3;
const PROVE = 4;
const EXCHANGE = 5;
const DONE = 6;
/** What a person decides, as Rust counts. */
export const enum Decree { Look, Cancel, Happened, DidNotHappen, Abandon, Forget, Release, Gone }
const GRADES: Grade[] = ["none", "reload", "process", "device"];
const REASONS = ["unavailable", "full", "too-new", "open-elsewhere"];
/** A longer sleep is cut up, so that a laptop that was asleep notices when it wakes. */
const LONGEST_SLEEP = 30_000;
/** After so many ended operations old ones are reaped again, at most so many at a time. */
const REAP_EVERY = 256;

/** What a handle knows of its entry. */
export interface Held {
  row: Row;
  /** The revision that we wrote when we began, until it is used: nothing was sent on it. */
  held?: number | undefined;
  /** The exact body, if the journal does not keep it. */
  body?: Uint8Array | undefined;
  begunHere: boolean;
  maybeSent: boolean;
}

/** Header lines that prove who asks. */
export type Prove = (origin: string, scope: string, refresh: boolean) => Promise<string[]>;

interface Refusal {
  kind?: number;
  message?: string;
}

/** What a store refused. Nobody can say what others did to the operation it is about. */
function refused(error: unknown, about?: Summary): SamekeyError {
  const { kind = 0, message = `${error}` } = (error ?? {}) as Refusal;
  const { reference, attempts } = about ?? {};
  const unresolved = !!about;
  return new SamekeyError({ kind: "journal", reason: REASONS[kind]!, message, reference, attempts, unresolved, nothingWasSent: !about });
}

async function wait(leash: AbortController, time: number): Promise<void> {
  const [wall, steady] = [Date.now(), performance.now()];
  for (;;) {
    const left = time - Math.max(Date.now() - wall, performance.now() - steady);
    if (!(left > 0)) return;
    await sleep(leash, Math.min(left, LONGEST_SLEEP));
  }
}

/** One client: its journal, and what Rust knows it by. It does what Rust decides. */
export class Core {
  readonly grade: Grade;
  /** Drives what was parked, for all to hear. */
  takeUp: ((held: Held) => Promise<unknown>) | undefined;
  /** What this page drives, each until it has landed. */
  private readonly flights = new Map<string, Promise<void>>();
  private readonly parked = new Set<string>();
  private ended = 0;

  private constructor(
    private readonly number: number,
    readonly scope: string,
    private readonly store: Store,
    private readonly cookies: string,
    private readonly prove: Prove | undefined,
  ) {
    this.grade = GRADES[store.grade]!;
  }

  static async open(
    kinds: string[], application: string, cookies: string, prove: Prove | undefined, options: Value[],
  ): Promise<Core> {
    if (!random()) {
      const message = "this browser has no `crypto.getRandomValues`, so no key can be minted";
      throw new SamekeyError({ kind: "invalid-configuration", message });
    }
    const [number, scope] = ask(OPEN, 0, application, ...options);
    for (const kind of kinds) {
      try {
        return new Core(number, scope, await open(kind, `samekey-${application}`), cookies, prove);
      } catch (error) {
        if (kind === kinds.at(-1) || (error as Refusal)?.kind) throw refused(error);
      }
    }
    throw refused(undefined);
  }

  private ask(what: number, ...values: Value[]): any[] {
    return ask(what, this.number, ...values);
  }

  view({ row }: Held): Summary {
    return summary([...this.ask(VIEW, ...row)], this.grade);
  }

  outcome({ row }: Held): any[] {
    return this.ask(OUTCOME, ...row);
  }

  private async rows(open: boolean): Promise<Row[]> {
    try {
      const rows = await this.store.some(open, this.scope);
      return rows.filter(({ gone }) => !gone).map(told);
    } catch (error) {
      throw refused(error);
    }
  }

  private found(row: Row): Held {
    return { row, begunHere: false, maybeSent: false };
  }

  async list(select: string): Promise<Held[]> {
    const all = (await this.rows(select === "unfinished")).map((row) => this.found(row));
    const wanted = (it: Summary) =>
      select === "all" ||
      (select === "unfinished" ? it.unfinished : (it.state === "attention" ? select === "attention" : select === "settled" && !it.unfinished));
    const seen = all.map((held) => [held, this.view(held)] as const);
    const whole = seen.filter(([, it]) => !it.damage && wanted(it));
    return [...whole, ...seen.filter(([, it]) => it.damage)].map(([held]) => held);
  }

  async find(reference: string): Promise<Held[]> {
    const [plain] = this.ask(REFERENCE, reference);
    const rows = await this.rows(false);
    return rows.map((row) => this.found(row)).filter((held) => this.view(held).reference === plain);
  }

  /** Makes an operation durable, or joins the one that is. */
  async begin(request: Value[], body: Uint8Array | undefined, adopted: boolean, previous: string | undefined): Promise<Held> {
    const found = previous === undefined ? [] : await this.find(previous);
    const asked = this.ask(BEGIN, this.store.owner, ...request, found.length, ...(found[0]?.row ?? []));
    const [name, key, frozen, progress, , released, ours] = asked;
    let added;
    try {
      added = await this.store.add(...asked);
    } catch (error) {
      await this.letGoIfBegun(key, ours, released);
      throw refused(error);
    }
    if (typeof added === "number") {
      const row: Row = [added, name, key, frozen, progress, 1, false];
      return { row, held: 1, body: asked[7], begunHere: true, maybeSent: false };
    }
    const [supplied] = this.ask(JOIN, frozen, adopted, body, ...added);
    return { ...this.found(added), body: supplied };
  }

  /** A begin that is said to have failed may have taken hold all the same: then nobody drives what it made. */
  private async letGoIfBegun(key: string, ours: Uint8Array, released: Uint8Array): Promise<void> {
    try {
      const made = (await this.rows(false)).find((row) => row[2] === key);
      if (made) await this.store.swap(made[0], key, 1, ours, undefined, released, true, false, true);
    } catch {
      // Nothing more is done.
    }
  }

  private async load(held: Held): Promise<Row | []> {
    const row = await this.store.get(held.row[0], held.row[2]);
    if (row.length) held.row = row;
    return row;
  }

  private async swap(held: Held, values: any[]): Promise<boolean> {
    const swapped = await this.store.swap(...values);
    if (swapped) this.learn(held, values);
    return swapped;
  }

  private learn(held: Held, [, , revision, , , progress]: any[]): void {
    held.row = held.row.with(4, progress).with(5, revision + 1) as Row;
  }

  private decree(held: Held, what = Decree.Look, note?: string, mine?: number): any[] {
    return this.ask(DECREE, what, note, mine, held.maybeSent, ...held.row);
  }

  /**
   * Writes what a person decided, over whatever a driver writes meanwhile. What we hold is taken first: from here on nobody
   * sends on its strength, so what it says about nothing having left stays true.
   */
  async decide(held: Held, what: Decree, note?: string): Promise<State> {
    this.decree(held);
    const mine = held.held;
    held.held = undefined;
    try {
      for (;;) {
        // What is let go is what we know, and no more.
        if (what !== Decree.Release && !(await this.load(held)).length) {
          if (what === Decree.Forget) return this.view(held).state;
          this.decree(held, Decree.Gone);
        }
        const values = this.decree(held, what, note, mine);
        if (!values.length) {
          held.held = mine;
          break;
        }
        if ((await this.swap(held, values)) || what === Decree.Release || what === Decree.Forget) break;
      }
      if (what === Decree.Release) return await this.decide(held, Decree.Look);
      return this.view(held).state;
    } catch (error) {
      held.held = mine;
      throw error instanceof SamekeyError ? error : refused(error, this.view(held));
    }
  }

  async wipe(): Promise<number> {
    try {
      return await this.store.wipe(this.scope);
    } catch (error) {
      throw refused(error);
    }
  }

  /** Turns what was settled long ago into tombstones, a small batch at a time. */
  async reap(): Promise<void> {
    let reaped = 0;
    for (const row of (await this.store.some(false)).map(told)) {
      const [over, write] = this.ask(REAP, ...row);
      if (over === undefined) continue;
      if (over) await this.store.remove(row[0]);
      else await this.store.swap(...unpack(write));
      if (++reaped === REAP_EVERY) return;
    }
  }

  /** Drives an operation to an end, telling of each step; nothing if it was let go before. */
  async drive(held: Held, resuming: boolean, step: (update: any[]) => void, stopped: Promise<unknown>): Promise<any[] | undefined> {
    this.decree(held);
    const key = held.row[2];
    let waited = false;
    for (let flight; (flight = this.flights.get(key)); waited = true) {
      if (await Promise.race([flight, stopped.then(() => true)])) return undefined;
    }
    let land = () => {};
    this.flights.set(key, new Promise((resolve) => (land = resolve)));
    try {
      return await this.ride(held, resuming, waited, step, stopped);
    } catch (error) {
      const { kind, until } = error as SamekeyError;
      if (kind === "deferred") this.later(held, until!);
      throw error;
    } finally {
      this.flights.delete(key);
      land();
    }
  }

  private async ride(
    held: Held, resuming: boolean, waited: boolean, step: (update: any[]) => void, stopped: Promise<unknown>,
  ): Promise<any[] | undefined> {
    const { owner, grade } = this.store;
    const { begunHere, maybeSent, body, row } = held;
    let [drive, ...asked] = this.ask(DRIVE, owner, grade, resuming, waited, begunHere, maybeSent, body, ...row);
    try {
      for (;;) {
        const [maybeSent, update, what, ...values] = asked;
        held.maybeSent = maybeSent;
        if (update.length) step(unpack(update));
        if (what === DONE) {
          if (this.ended++ % REAP_EVERY === 0) void this.reap().catch(() => {});
          return values;
        }
        if (what > DONE) throw new SamekeyError(trouble(values));
        const leash = new AbortController();
        const refusal = (error: Refusal): Value[] => [true, error?.kind, error?.message];
        const answer = await Promise.race([this.perform(held, what, values, leash).catch(refusal), stopped]);
        if (!Array.isArray(answer)) {
          leash.abort();
          return undefined;
        }
        if (what === LOAD && !answer[0]) {
          // In the same breath: that nothing was sent on it is told to this drive, or to a person who stops it, never to both.
          answer.splice(1, 0, held.held);
          held.held = undefined;
        }
        asked = this.ask(STEP, drive, ...answer);
      }
    } finally {
      for (const write of this.leave(drive)) {
        // What the journal makes of it is the next driver's to see.
        this.store.swap(...write).catch(() => {});
        this.learn(held, write);
      }
    }
  }

  /** What is to be written when a drive is over. A module that broke down lets go of everything: others find this tab dead. */
  private leave(drive: number): any[][] {
    try {
      return this.ask(END, drive).map(unpack);
    } catch {
      void this.store.close().catch(() => {});
      return [];
    }
  }

  /** Does what Rust asks for. */
  private async perform(held: Held, what: number, values: any[], leash: AbortController): Promise<Value[]> {
    if (what === LOAD) {
      return [false, ...(await this.load(held))];
    }
    if (what === LIVENESS) return [false, await this.store.liveness(values[0])];
    if (what === SWAP) return [false, await this.swap(held, values)];
    if (what === WAIT) await wait(leash, values[0]);
    if (what === PROVE) return [false, ...(await this.prove!(values[0], this.scope, values[1]))];
    if (what !== EXCHANGE) return [false];
    const [method, url, body, ...rest] = values;
    return [false, ...[await exchange(leash, method, url, body, this.cookies, ...rest)].flat()];
  }

  /** Takes up again at `until` what is parked, as long as the page lives. */
  private later(held: Held, until: Date): void {
    const key = held.row[2];
    if (this.parked.has(key)) return;
    this.parked.add(key);
    const { row, body } = held;
    void wait(new AbortController(), until.getTime() - Date.now()).then(() => {
      this.parked.delete(key);
      // Whatever comes of it is in the journal.
      return this.takeUp?.({ ...this.found(row), body });
    }).catch(() => {});
  }
}

/** Handles that are gone: what was begun and never sent is let go, so that anyone may take it at once. */
export const forgotten = new FinalizationRegistry<[Core, Held]>(([core, held]) => {
  if (held.held) void core.decide(held, Decree.Release).catch(() => {});
});
