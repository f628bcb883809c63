import type { RawOperation } from "../wasm/samekey.js";
import type { Client } from "./client.js";
import { explained, SamekeyError } from "./errors.js";
import type { Outcome, Progress, SendOptions, State, Summary } from "./types.js";

type Loose = Record<string, any>;

function outcome({ lines, ...raw }: Loose): Outcome {
  const body = raw.body as Uint8Array | undefined;
  const headers = new Headers();
  const parts = (lines as string).split("\n");
  for (let i = 0; i + 1 < parts.length; i += 2) headers.append(parts[i]!, parts[i + 1]!);
  const text = () => (body ? new TextDecoder().decode(body) : undefined);
  return {
    ...raw,
    ok: raw.state === "succeeded",
    headers,
    answeredAt: new Date(raw.answeredAt),
    text,
    json: () => (body ? JSON.parse(text() as string) : undefined),
  } as Outcome;
}

/** Without the members that are not there: a listener may compare or show what it gets. */
const bare = (raw: Loose): Loose => Object.fromEntries(Object.entries(raw).filter(([, value]) => value !== undefined));

function progress(raw: Loose): Progress {
  const step = bare(raw);
  if (step.state === "sending" && globalThis.navigator?.onLine === false) step.state = "offline";
  if (step.state === "waiting") step.until = Date.now() + step.wait;
  return step as Progress;
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
    return bare(this.raw.summary()) as Summary;
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
    return this.change("cancel");
  }

  /** Settles by hand what a person found out. */
  settle(happened: boolean, note: string): Promise<State> {
    return this.change(happened ? "happened" : "did not happen", note);
  }

  /** Closes the operation on purpose, whatever may have happened. */
  abandon(note: string): Promise<State> {
    return this.change("abandon", note);
  }

  /** Reads the entry again: another tab may have moved it on. */
  refresh(): Promise<State> {
    return this.decide("refresh");
  }

  /** Leaves only a tombstone of a settled operation. */
  async forget(): Promise<void> {
    await this.decide("forget");
  }

  private decide(what: string, note = ""): Promise<State> {
    return explained(this.raw.decide(what, note)) as Promise<State>;
  }

  private async change(what: string, note?: string): Promise<State> {
    const state = await this.decide(what, note);
    this.client.tell(this.summary, state === "attention" ? { state, reason: "cancelled" } : ({ state } as Progress));
    await this.client.ended(this.summary);
    return state;
  }

  private aborted(): SamekeyError {
    const { reference, attempts, maybeApplied } = this.summary;
    return new SamekeyError({
      kind: "aborted",
      message: `let go before its end; it goes on under the same key when it is resumed (reference ${reference})`,
      reference,
      attempts,
      unresolved: maybeApplied,
      nothingWasSent: !maybeApplied,
    });
  }
}
