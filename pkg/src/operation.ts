import type { RawOperation } from "../wasm/samekey.js";
import type { Client } from "./client.js";
import { explained, kebab, SamekeyError } from "./errors.js";
import type { Outcome, Progress, SendOptions, State, Summary } from "./types.js";

type Loose = Record<string, any>;

function outcome(raw: Loose): Outcome {
  const body = raw.body as Uint8Array | undefined;
  const text = () => (body ? new TextDecoder().decode(body) : undefined);
  return {
    ...raw,
    body,
    note: raw.note,
    ok: raw.state === "succeeded",
    headers: new Headers(raw.headers),
    answeredAt: new Date(raw.answeredAt),
    text,
    json: () => (body ? JSON.parse(text() as string) : undefined),
  } as Outcome;
}

function progress(raw: Loose): Progress {
  if (raw.state === "sending" && globalThis.navigator?.onLine === false) {
    return { state: "offline", attempt: raw.attempt };
  }
  if (raw.state === "waiting") return { ...raw, until: Date.now() + raw.wait } as Progress;
  if (raw.state === "attention") return { state: "attention", reason: kebab(raw.reason) };
  return raw as Progress;
}

/** One action under one key, durable in the journal. */
export class Operation {
  /** @internal */
  constructor(
    private readonly client: Client,
    private readonly raw: RawOperation,
  ) {}

  /** All that this handle knows. */
  get summary(): Summary {
    const raw = this.raw.summary() as Summary;
    return raw.reason === undefined ? raw : { ...raw, reason: kebab(raw.reason) };
  }

  /** What to show to people: on the screen before the first byte leaves. */
  get reference(): string {
    return this.summary.reference;
  }

  get key(): string {
    return this.summary.key;
  }

  get intent(): string {
    return this.summary.intent;
  }

  get state(): State {
    return this.summary.state;
  }

  /** The outcome, if it ended. */
  get outcome(): Outcome | undefined {
    const raw = this.raw.outcome() as Loose | undefined;
    return raw && outcome(raw);
  }

  /**
   * Sends the request, again and again if need be, until there is an end to report. If another tab
   * drives the operation, this waits for it, and takes over should that tab die or freeze.
   */
  async send(options: SendOptions = {}): Promise<Outcome> {
    const { signal, onProgress } = options;
    const about = this.summary;
    if (signal?.aborted) throw this.aborted();
    let release: () => void = () => {};
    const stopped = new Promise<void>((resolve) => {
      release = resolve;
      signal?.addEventListener("abort", () => resolve(), { once: true });
    });
    const listener = (raw: Loose) => {
      const step = progress(raw);
      this.client.tell(about, step);
      onProgress?.(step);
    };
    this.client.driving.add(about.key);
    try {
      const raw = (await explained(this.raw.send(listener, stopped))) as Loose | null;
      if (raw === null) throw this.aborted();
      const ended = outcome(raw);
      await this.client.ended({ ...about, state: ended.state });
      return ended;
    } catch (error) {
      if (error instanceof SamekeyError && error.kind === "ended") await this.client.ended(this.summary);
      throw error;
    } finally {
      this.client.driving.delete(about.key);
      release();
    }
  }

  /** Goes on with what an earlier page left open: same key, same bytes. */
  resume(options: SendOptions = {}): Promise<Outcome> {
    return this.send(options);
  }

  /**
   * Stops the operation for good, whoever drives it. If nothing can have happened it is `abandoned`,
   * else it needs `attention`: the server may have acted.
   */
  cancel(): Promise<State> {
    return this.change(this.raw.cancel());
  }

  /** Settles by hand what a person found out. */
  settle(happened: boolean, note: string): Promise<State> {
    return this.change(this.raw.settle(happened, note));
  }

  /** Closes the operation on purpose, whatever may have happened. */
  abandon(note: string): Promise<State> {
    return this.change(this.raw.abandon(note));
  }

  /** Reads the entry again: another tab may have moved it on. */
  refresh(): Promise<State> {
    return explained(this.raw.refresh()) as Promise<State>;
  }

  /** Leaves only a tombstone of a settled operation. */
  async forget(): Promise<void> {
    await explained(this.raw.forget());
  }

  private async change(promise: Promise<unknown>): Promise<State> {
    const state = (await explained(promise)) as State;
    this.client.tell(this.summary, state === "attention" ? { state, reason: "cancelled" } : ({ state } as Progress));
    await this.client.ended(this.summary);
    return state;
  }

  private aborted(): SamekeyError {
    const { reference, attempts, maybeApplied } = this.summary;
    return new SamekeyError({
      kind: "Aborted",
      message: `let go before its end; it goes on under the same key when it is resumed (reference ${reference})`,
      reference,
      attempts,
      unresolved: maybeApplied,
      nothingWasSent: !maybeApplied,
    });
  }
}
