import type { Client } from "./client.js";
import { Decree, forgotten, type Core, type Held } from "./core.js";
import { call, SamekeyError } from "./errors.js";
import { outcome, progress } from "./told.js";
import type { Outcome, Progress, SendOptions, State, Summary } from "./types.js";

/** One action under one key, durable in the journal. */
export class Operation {
  /** @internal */
  constructor(
    private readonly client: Client,
    private readonly core: Core,
    private readonly held: Held,
  ) {
    forgotten.register(this, [core, held]);
  }

  /** All that this handle knows. */
  get summary(): Summary {
    return this.core.view(this.held);
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
    const values = this.core.outcome(this.held);
    return values.length ? outcome(values) : undefined;
  }

  /**
   * Sends the request, again and again if need be, until there is an end to report. If another tab
   * drives the operation, this waits for it, and takes over should that tab die or freeze.
   */
  send(options: SendOptions = {}): Promise<Outcome> {
    return this.drive(options, false);
  }

  private async drive(options: SendOptions, takeUp: boolean): Promise<Outcome> {
    const { signal, onProgress } = options;
    const about = this.summary;
    if (signal?.aborted) throw this.aborted();
    let release: () => void = () => {};
    const stopped = new Promise<void>((resolve) => {
      release = resolve;
      signal?.addEventListener("abort", release, { once: true });
    });
    const step = (values: any[]) => {
      const made = progress(values);
      if (made.state === "joined") this.client.want(about.key);
      this.client.tell(about, made);
      call(onProgress, made);
    };
    this.client.driving.add(about.key);
    try {
      const values = await this.core.drive(this.held, takeUp, step, stopped);
      if (!values) throw this.aborted();
      const ended = outcome(values);
      await this.client.ended({ ...about, state: ended.state });
      return ended;
    } catch (error) {
      if (error instanceof SamekeyError && error.kind === "ended") await this.client.ended(this.summary);
      throw error;
    } finally {
      this.client.driving.delete(about.key);
      signal?.removeEventListener("abort", release);
      release();
    }
  }

  /**
   * Goes on with what an earlier page left open, or what a person wants to try again: same key, same bytes.
   * Unlike `send` it also takes up what needs attention, where that can be sent without acting twice.
   */
  resume(options: SendOptions = {}): Promise<Outcome> {
    return this.drive(options, true);
  }

  /**
   * Stops the operation for good, whoever drives it. If nothing can have happened it is `abandoned`,
   * else it needs `attention`: the server may have acted.
   */
  cancel(): Promise<State> {
    return this.change(Decree.Cancel);
  }

  /** Settles by hand what a person found out. */
  settle(happened: boolean, note: string): Promise<State> {
    return this.change(happened ? Decree.Happened : Decree.DidNotHappen, note);
  }

  /** Closes the operation on purpose, whatever may have happened. */
  abandon(note: string): Promise<State> {
    return this.change(Decree.Abandon, note);
  }

  /** Reads the entry again: another tab may have moved it on. */
  refresh(): Promise<State> {
    return this.decide(Decree.Look);
  }

  /** @internal Another tab wants to send what this one began and does not send. */
  async release(): Promise<void> {
    await this.decide(Decree.Release);
  }

  /** Leaves only a tombstone of a settled operation. */
  async forget(): Promise<void> {
    await this.decide(Decree.Forget);
  }

  private decide(what: Decree, note?: string): Promise<State> {
    return this.core.decide(this.held, what, note);
  }

  private async change(what: Decree, note?: string): Promise<State> {
    const state = await this.decide(what, note);
    this.client.tell(this.summary, state === "attention" ? { state, reason: "cancelled" } : ({ state } as Progress));
    await this.client.ended(this.summary);
    return state;
  }

  private aborted(): SamekeyError {
    const { reference, attempts, maybeApplied } = this.summary;
    // What we began and still hold was not sent, however careful the journal is.
    const open = maybeApplied && !this.held.held;
    return new SamekeyError({
      kind: "aborted",
      message: "let go before its end; it goes on under the same key when it is resumed",
      reference,
      attempts,
      unresolved: open,
      nothingWasSent: !open && !this.held.maybeSent,
    });
  }
}
