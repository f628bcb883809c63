import { RawClient, type RawOperation } from "../wasm/samekey.js";
import { explained, SamekeyError } from "./errors.js";
import { frozen } from "./json.js";
import { load } from "./load.js";
import { databaseNotes, plainNotes, type Note, type Notes } from "./notes.js";
import { Operation } from "./operation.js";
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

/** Sends operations, each under one key for all its attempts. */
export class Client {
  /** @internal Keys that this page drives. */
  readonly driving = new Set<string>();
  private readonly listeners = new Set<(notice: Notice) => void>();
  private readonly shown = new Map<string, Note>();
  private stopSweeping: (() => void) | undefined;

  private constructor(
    private readonly raw: RawClient,
    private readonly effects: Record<string, Effect<Json>>,
    private readonly notes: Notes,
    private readonly channel: BroadcastChannel | undefined,
  ) {
    // In Node an open channel would keep the program alive.
    (channel as unknown as { unref?: () => void } | undefined)?.unref?.();
    channel?.addEventListener("message", ({ data }: MessageEvent<Notice>) => void this.hear(data));
  }

  /** Opens the journal, shows again what was shown for operations that are still open. */
  static async open(options: ClientOptions): Promise<Client> {
    await load();
    const raw = await explained(opened(options));
    const name = `samekey-${options.application}-notes`;
    const lesser = options.store === "memory" || raw.grade === "reload";
    const notes = lesser
      ? plainNotes(name, options.store === "memory" ? undefined : localStorage)
      : await databaseNotes(name);
    const channel = options.store !== "memory" && globalThis.BroadcastChannel
      ? new BroadcastChannel(`samekey:${raw.scope}`)
      : undefined;
    const client = new Client(raw, options.effects ?? {}, notes, channel);
    await client.showAgain();
    void explained(raw.reap()).catch(() => {});
    return client;
  }

  /** What the journal survives. */
  get grade(): Grade {
    return this.raw.grade as Grade;
  }

  /** For whom this client acts. */
  get scope(): string {
    return this.raw.scope;
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
    const plain = { intent, ...plainRequest(request) };
    const note = optimistic && {
      scope: this.scope,
      intent,
      effect: optimistic.effect,
      args: optimistic.args ?? null,
      at: Date.now(),
    };
    if (note) await this.notes.put(note);
    const operation = new Operation(this, await explained(this.raw.begin(plain)));
    if (note) await this.show(note, operation.summary);
    return operation;
  }

  /** The same action once more, on purpose, under a key of its own. */
  async repeat(
    reference: string,
    request?: OperationRequest,
    options: { evenIfUnresolved?: boolean } = {},
  ): Promise<Operation> {
    const plain = { previous: reference, headers: "", ...(request && plainRequest(request)), ...options };
    return new Operation(this, await explained(this.raw.begin(plain)));
  }

  /** The operations in such a state. */
  async list(select: "all" | "unfinished" | "attention" | "settled" = "all"): Promise<Operation[]> {
    return this.wrap(await explained(this.raw.list(select)));
  }

  /** The operations with this reference; two are possible, if rarely. */
  async find(reference: string): Promise<Operation[]> {
    return this.wrap(await explained(this.raw.find(reference)));
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
    const wiped = (await explained(this.raw.wipe())) as number;
    for (const note of await this.notes.all(this.scope)) await this.notes.remove(note);
    return wiped;
  }

  /** Stops looking for open operations and listening to other tabs. */
  close(): void {
    this.stopSweeping?.();
    this.channel?.close();
  }

  /** @internal */
  tell({ reference, intent }: Pick<Summary, "reference" | "intent">, progress: Progress): void {
    const notice: Notice = { ...progress, reference, intent, here: true };
    try {
      this.channel?.postMessage({ ...notice, here: false });
    } catch {
      // A closed channel: nobody else listens.
    }
    for (const listener of this.listeners) listener(notice);
  }

  /** @internal The operation is in this state: what it showed is confirmed, taken back, or stays. */
  async ended(about: Pending): Promise<void> {
    const note = this.shown.get(about.intent);
    const effect = note && this.effects[note.effect];
    const args = note?.args ?? null;
    if (about.state === "succeeded") effect?.confirm?.(args, about);
    else if (about.state === "rejected" || about.state === "abandoned") effect?.revert(args, about);
    else return;
    this.shown.delete(about.intent);
    if (note) await this.notes.remove(note);
  }

  private wrap(found: RawOperation[]): Operation[] {
    return found.map((raw) => new Operation(this, raw));
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
        options.onResume?.(operation);
        try {
          return { operation, outcome: await operation.resume(options) };
        } catch (error) {
          return { operation, error };
        }
      }),
    );
  }

  private keepSweeping(options: SendOptions): void {
    if (this.stopSweeping || typeof document === "undefined") return;
    const look = (patient: boolean) => {
      // Whatever comes of it is in the journal, and told to those who subscribed.
      if (navigator.onLine && document.visibilityState === "visible") void this.sweep(options, patient).catch(() => {});
    };
    const again = () => look(false);
    const timer = setInterval(() => look(true), SWEEP_EVERY);
    addEventListener("online", again);
    addEventListener("storage", again);
    document.addEventListener("visibilitychange", again);
    this.stopSweeping = () => {
      clearInterval(timer);
      removeEventListener("online", again);
      removeEventListener("storage", again);
      document.removeEventListener("visibilitychange", again);
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
      this.effects[note.effect]?.apply(note.args, about);
    }
    await this.ended(about);
  }

  private async hear(notice: Notice): Promise<void> {
    const { reference, intent, state } = notice;
    await this.ended({ reference, intent, state: state as State });
    for (const listener of this.listeners) listener(notice);
  }
}

const mistaken = (message: string): SamekeyError => new SamekeyError({ kind: "invalid-request", message });

/** Header lines as the bindings take them: names and values, each on a line of its own. */
function lines(headers: Record<string, string>): string {
  const parts = Object.entries(headers).flat();
  if (parts.some((part) => /[\r\n]/.test(part))) throw mistaken("a header line cannot hold a line break; remove it");
  return parts.map((part) => `${part}\n`).join("");
}

/** Opens the store that was asked for, or its fallback where the browser refuses IndexedDB. */
async function opened(options: ClientOptions): Promise<RawClient> {
  const { application, credentials, policy = {} } = options;
  const { maxAttempts, base, cap, attemptTimeout, giveUpAfter, deferAbove } = policy;
  const plain = {
    ...options,
    journal: `samekey-${application}`,
    store: options.store ?? "indexeddb",
    policy: [maxAttempts, base, cap, attemptTimeout, giveUpAfter, deferAbove],
    origins: (options.allowOrigins ?? []).join("\n"),
    headers: (options.keepHeaders ?? []).join("\n"),
    bodies: options.keepBodies ?? true,
    credentials:
      credentials &&
      (async (origin: string, scope: string, refresh: boolean) => lines(await credentials({ origin, scope, refresh }))),
  };
  try {
    return await RawClient.open(plain);
  } catch (error) {
    const { reason } = error as { reason?: string };
    if (reason !== "unavailable" || plain.store !== "indexeddb" || !options.fallback) throw error;
    return RawClient.open({ ...plain, store: "localstorage" });
  }
}

/** A request as the bindings take it. */
function plainRequest(request: OperationRequest): object {
  const { json, body, optimistic: _, ...rest } = request;
  const bytes = json !== undefined ? frozen(json) : typeof body === "string" ? new TextEncoder().encode(body) : body;
  const base = globalThis.document?.baseURI ?? globalThis.location?.href;
  let url = request.url;
  try {
    url = new URL(request.url, base).href;
  } catch {
    // The bindings say what is wrong with it.
  }
  return { method: "POST", contentType: "application/json", ...rest, headers: lines(request.headers ?? {}), url, body: bytes };
}
