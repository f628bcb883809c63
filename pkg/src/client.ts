import { Core, type Held } from "./core.js";
import { call, SamekeyError } from "./errors.js";
import { frozen } from "./json.js";
import { load } from "./load.js";
import { databaseNotes, plainNotes, type Note, type Notes } from "./notes.js";
import { Operation } from "./operation.js";
import { memory, pack, type Value } from "./scripts.js";
import type {
  ClientOptions, Effect, Grade, Json, Notice, OperationRequest, Outcome, Pending, Progress, SendOptions,
  State, Summary,
} from "./types.js";

/** How often a page that resumes looks for what another tab left behind. */
const SWEEP_EVERY = 10_000;
/** A note without an operation may belong to one that is just being begun. */
const ORPHAN_AFTER = 60_000;

/** How one operation of `resumeAll` went. */
export type Resumed =
  | { operation: Operation; outcome: Outcome; error?: undefined }
  | { operation: Operation; outcome?: undefined; error: unknown };

/** What one tab asks the others for. */
type Wanted = { want: string };

/** Sends operations, each under one key for all its attempts. */
export class Client {
  /** @internal Keys that this page drives. */
  readonly driving = new Set<string>();
  /** What this page began, by key: another tab may want to send it. */
  private readonly begun = new Map<string, WeakRef<Operation>>();
  private readonly listeners = new Set<(notice: Notice) => void>();
  private readonly shown = new Map<string, Note>();
  private stopSweeping: (() => void) | undefined;

  /** What the journal survives. */
  readonly grade: Grade;
  /** For whom this client acts. */
  readonly scope: string;

  private constructor(
    private readonly core: Core,
    private readonly effects: Record<string, Effect<Json>>,
    private readonly notes: Notes,
    private readonly channel: BroadcastChannel | undefined,
  ) {
    this.grade = core.grade;
    this.scope = core.scope;
    core.takeUp = (held) => this.handles([held])[0]!.send();
    // In Node an open channel would keep the program alive.
    (channel as unknown as { unref?: () => void } | undefined)?.unref?.();
    channel?.addEventListener("message", ({ data }: MessageEvent<Notice | Wanted>) => {
      if ("want" in data) this.yield(data.want);
      else void this.hear(data);
    });
  }

  /** Opens the journal, shows again what was shown for operations that are still open. */
  static async open(options: ClientOptions): Promise<Client> {
    await load();
    const core = await opened(options);
    const { grade, scope } = core;
    // No application has a colon in its name, so that no journal is called so.
    const name = `samekey:${options.application}`;
    const lesser = options.store === "memory" || grade === "reload";
    const notes = lesser
      ? plainNotes(name, options.store === "memory" ? memory() : localStorage)
      : databaseNotes(name);
    const channel = options.store !== "memory" && globalThis.BroadcastChannel
      ? new BroadcastChannel(`samekey:${scope}`)
      : undefined;
    const client = new Client(core, options.effects ?? {}, notes, channel);
    await client.showAgain();
    void core.reap().catch(() => {});
    return client;
  }

  /**
   * Makes an operation durable; nothing is sent yet. `intent` is your stable name of the action: it
   * finds the key again after a reload or a second click.
   */
  async operation(intent: string, request: OperationRequest): Promise<Operation> {
    const { optimistic } = request;
    if (optimistic && !this.effects[optimistic.effect]) {
      throw mistaken(`no effect is called ${optimistic.effect}; give it to Client.open`);
    }
    const plain = described(request, intent);
    const note = optimistic && {
      scope: this.scope,
      intent,
      effect: optimistic.effect,
      args: optimistic.args ?? null,
      at: Date.now(),
    };
    if (note) await this.notes.put(note);
    const operation = await this.begin(plain);
    this.begun.set(operation.key, new WeakRef(operation));
    if (note) await this.show(note, operation.summary);
    return operation;
  }

  /** The same action once more, on purpose, under a key of its own. */
  async repeat(
    reference: string,
    request?: OperationRequest,
    options: { evenIfUnresolved?: boolean } = {},
  ): Promise<Operation> {
    return this.begin(described(request, "", reference, options.evenIfUnresolved));
  }

  /** The operations in such a state. */
  async list(select: "all" | "unfinished" | "attention" | "settled" = "all"): Promise<Operation[]> {
    return this.handles(await this.core.list(select));
  }

  /** The operations with this reference; two are possible, if rarely. */
  async find(reference: string): Promise<Operation[]> {
    return this.handles(await this.core.find(`${reference}`));
  }

  /**
   * Goes on with everything that is open, now and whenever the page comes online or into view, until
   * `close`. Resolves when what is open now has ended, each on its own.
   */
  async resumeAll(options: SendOptions & { onResume?: (operation: Operation) => void } = {}): Promise<Resumed[]> {
    this.keepSweeping(options);
    return this.sweep(options);
  }

  /** Hears of every step of every operation, those of other tabs included. */
  subscribe(listener: (notice: Notice) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /**
   * Deletes all that this device keeps of the client's scope, open operations included: they cannot be
   * resumed afterwards. Returns how many entries went.
   */
  async signOut(): Promise<number> {
    this.close();
    const wiped = await this.core.wipe();
    for (const note of await this.notes.all(this.scope)) await this.notes.remove(note);
    return wiped;
  }

  /** Stops looking for open operations and listening to other tabs. */
  close(): void {
    this.stopSweeping?.();
    this.channel?.close();
  }

  /** @internal Asks the other tabs for what one of them began, should it not be sending. */
  want(key: string): void {
    this.post({ want: key });
  }

  /** @internal */
  tell({ reference, intent }: Pick<Summary, "reference" | "intent">, progress: Progress): void {
    const notice: Notice = { ...progress, reference, intent, here: true };
    this.post({ ...notice, here: false });
    for (const listener of this.listeners) call(listener, notice);
  }

  /** @internal The operation is in this state: what it showed is confirmed, taken back, or stays. */
  async ended(about: Pending): Promise<void> {
    const note = this.shown.get(about.intent);
    const effect = note && this.effects[note.effect];
    const args = note?.args ?? null;
    if (!["succeeded", "rejected", "abandoned"].includes(about.state)) return;
    this.shown.delete(about.intent);
    if (about.state === "succeeded") call(effect?.confirm?.bind(effect), args, about);
    else call(effect?.revert?.bind(effect), args, about);
    // A note that stays behind is concluded at the next load.
    if (note) await this.notes.remove(note).catch(() => {});
  }

  private handles(found: Held[]): Operation[] {
    return found.map((held) => new Operation(this, this.core, held));
  }

  private async begin({ plain, body, adopted, previous }: Described): Promise<Operation> {
    const [operation] = this.handles([await this.core.begin(plain, body, adopted, previous)]);
    return operation!;
  }

  private post(message: Notice | Wanted): void {
    try {
      this.channel?.postMessage(message);
    } catch {
      // A closed channel: nobody else listens.
    }
  }

  private yield(key: string): void {
    if (!this.driving.has(key)) void this.begun.get(key)?.deref()?.release().catch(() => {});
    this.begun.delete(key);
  }

  /** `patient`: what has used up its attempts waits for a better reason to go on than the time. */
  private async sweep(
    options: SendOptions & { onResume?: (operation: Operation) => void },
    patient = false,
  ): Promise<Resumed[]> {
    const open = (await this.list("unfinished")).filter(
      ({ key, state }) => !this.driving.has(key) && !(patient && state === "attention"),
    );
    return Promise.all(
      open.map(async (operation): Promise<Resumed> => {
        call(options.onResume, operation);
        try {
          return { operation, outcome: await operation.send(options) };
        } catch (error) {
          return { operation, error };
        }
      }),
    );
  }

  private keepSweeping(options: SendOptions): void {
    if (this.stopSweeping || options.signal?.aborted || typeof document === "undefined") return;
    const look = (patient: boolean) => {
      // Whatever comes of it is in the journal, and told to those who subscribed.
      if (navigator.onLine && document.visibilityState === "visible") void this.sweep(options, patient).catch(() => {});
    };
    const again = () => look(false);
    const timer = setInterval(() => look(true), SWEEP_EVERY);
    const leash = new AbortController();
    for (const event of ["online", "storage", "pageshow"]) addEventListener(event, again, leash);
    document.addEventListener("visibilitychange", again, leash);
    this.stopSweeping = () => {
      clearInterval(timer);
      leash.abort();
      this.stopSweeping = undefined;
    };
    options.signal?.addEventListener("abort", () => this.stopSweeping?.(), { once: true });
  }

  /** After a load: what is open is shown again, what ended meanwhile is concluded. */
  private async showAgain(): Promise<void> {
    const notes = await this.notes.all(this.scope);
    if (notes.length === 0) return;
    const known = new Map((await this.list("all")).map(({ summary }) => [summary.intent, summary]));
    for (const note of notes) {
      const about = known.get(note.intent);
      if (about) await this.show(note, about);
      else if (Date.now() - note.at > ORPHAN_AFTER) await this.notes.remove(note);
    }
  }

  private async show(note: Note, about: Summary): Promise<void> {
    if (!this.shown.has(note.intent)) {
      this.shown.set(note.intent, note);
      const effect = this.effects[note.effect];
      call(effect?.apply.bind(effect), note.args, about);
    }
    await this.ended(about);
  }

  private async hear(notice: Notice): Promise<void> {
    const { reference, intent, state } = notice;
    await this.ended({ reference, intent, state: state as State });
    for (const listener of this.listeners) call(listener, notice);
  }
}

const mistaken = (message: string): SamekeyError => new SamekeyError({ kind: "invalid-request", message });

/** Header lines as the bindings take them: names and values in turn. */
function lines(headers: Record<string, string> = {}): string[] {
  const parts = Object.entries(headers).flat().map((part) => `${part}`);
  if (parts.some((part) => /[\r\n]/.test(part))) throw mistaken("a header line cannot hold a line break; remove it");
  return parts;
}

/** Opens the store that was asked for, or its fallback where the browser refuses IndexedDB. */
function opened(options: ClientOptions): Promise<Core> {
  const { application, credentials: prove, policy = {}, store = "indexeddb", fallback, cookies = "same-origin" } = options;
  const kinds = fallback && store === "indexeddb" ? [store, "localstorage"] : [store];
  return Core.open(
    kinds, `${application}`, cookies,
    prove && (async (origin, scope, refresh) => lines(await prove({ origin, scope, refresh }))),
    [
      options.scope?.toString(), options.profile, pack([...(options.allowOrigins ?? [])]), pack([...(options.keepHeaders ?? [])]),
      options.keepBodies ?? true, !!prove, policy.maxAttempts, policy.base, policy.cap, policy.attemptTimeout,
      policy.giveUpAfter, policy.deferAbove,
    ],
  );
}

interface Described {
  plain: Value[];
  body: Uint8Array | undefined;
  adopted: boolean;
  previous: string | undefined;
}

/** A request as the bindings take it; one without its own repeats the previous one's. */
function described(request: OperationRequest | undefined, intent: string, previous?: string, evenIfUnresolved?: boolean): Described {
  const { json, body, complete, method = "POST", contentType = "application/json" } = (request ?? {}) as Partial<OperationRequest & { contentType: string }>;
  // Of anything else, an ArrayBuffer say, other bytes would be frozen than the caller means.
  if (body !== undefined && typeof body !== "string" && body.BYTES_PER_ELEMENT !== 1) {
    throw mistaken("a body is a text or a Uint8Array; make it one");
  }
  const bytes = json !== undefined ? frozen(json) : typeof body === "string" ? new TextEncoder().encode(body) : body;
  const base = globalThis.document?.baseURI ?? globalThis.location?.href;
  let url = request?.url;
  try {
    url &&= new URL(url, base).href;
  } catch {
    // The bindings say what is wrong with it.
  }
  const adopted = request?.adoptKey;
  const plain = [
    previous, evenIfUnresolved, `${intent}`, url, method, bytes, contentType, request?.withKey, adopted,
    request?.window, request?.profile, complete === "body" ? "" : complete?.header, pack(lines(request?.headers)),
  ];
  return { plain, body: bytes, adopted: adopted !== undefined, previous };
}
