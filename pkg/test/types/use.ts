// Compiled, never run: each line that must not compile says so.
import { Client, SamekeyError, type ErrorKind, type Outcome, type Progress } from "samekey";

export async function checkout(cart: { items: string[] }): Promise<string> {
  const client = await Client.open({
    application: "shop",
    scope: "ann",
    credentials: async ({ refresh }) => ({ Authorization: refresh ? "Bearer new" : "Bearer old" }),
    effects: { row: { apply: (args: { item: string }) => args.item, revert: () => {} } },
  });
  const operation = await client.operation("cart/9", { url: "/api/orders", json: cart });
  // @ts-expect-error a request has JSON or bytes, not both
  await client.operation("cart/9", { url: "/api/orders", json: cart, body: "x", contentType: "text/plain" });
  // @ts-expect-error bytes need a content type
  await client.operation("cart/9", { url: "/api/orders", body: "x" });
  // @ts-expect-error GET needs no key
  await client.operation("cart/9", { url: "/api/orders", method: "GET" });
  await client.operation("cart/9", { url: "/api/orders", json: cart, complete: "body" });
  await client.operation("cart/9", { url: "/api/orders", json: cart, complete: { header: "X-Order-Id" } });
  // @ts-expect-error a header is named
  await client.operation("cart/9", { url: "/api/orders", json: cart, complete: "X-Order-Id" });
  // @ts-expect-error there is no such store
  await Client.open({ application: "shop", store: "cookies" });
  try {
    const outcome = await operation.send({ onProgress: show, signal: AbortSignal.timeout(1_000) });
    return told(outcome);
  } catch (error) {
    if (error instanceof SamekeyError) {
      const kind: ErrorKind = error.kind;
      const reference: string | undefined = error.reference;
      return error.unresolved ? `keep ${reference}` : kind;
    }
    throw error;
  }
}

export async function onLoad(client: Client): Promise<string[]> {
  const stop: () => void = client.subscribe((notice) => (notice.here ? notice.state : notice.reference));
  const ended = await client.resumeAll({ onResume: (operation) => operation.reference });
  stop();
  return ended.map(({ outcome, error }) => {
    // @ts-expect-error either it has an outcome or an error
    void outcome.state;
    return outcome ? outcome.state : String(error);
  });
}

export async function wrong(client: Client): Promise<void> {
  // @ts-expect-error what is shown meanwhile is small and plain
  await client.operation("cart/9", { url: "/", optimistic: { effect: "row", args: () => {} } });
  const [operation] = await client.find("7D3F-92AB-1C4E-K");
  // @ts-expect-error there may be none
  await operation.resume();
  // @ts-expect-error a settlement says how it is known
  await operation?.settle(true);
}

function told(outcome: Outcome): string {
  switch (outcome.state) {
    case "succeeded":
      return outcome.json<{ id: string }>()?.id ?? outcome.reference;
    case "rejected":
      return `declined: ${outcome.status}`;
    case "abandoned":
      return outcome.note ?? "abandoned";
  }
}

function show(progress: Progress): string {
  switch (progress.state) {
    case "waiting":
      return `trying again in ${Math.ceil(progress.wait / 1_000)} s: ${progress.reason}`;
    case "sending":
    case "offline":
      return `${progress.state}, attempt ${progress.attempt}`;
    case "deferred":
      return new Date(progress.until).toISOString();
    case "attention":
      return progress.reason;
    case "polling":
    case "joined":
    case "succeeded":
    case "rejected":
    case "abandoned":
      // @ts-expect-error only a wait has a length
      return String(progress.wait);
  }
}
