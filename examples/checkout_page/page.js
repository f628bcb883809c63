// A checkout that survives reloads, tabs and a killed browser. The whole of it that is about payment
// stands in `pay` and `resume`; the rest is what the customer sees.
import { Client, SamekeyError } from "/dist/index.js";

const CART = [["Darjeeling, first flush", 1450], ["Two cups", 2200], ["Biscuits", 480]];
const element = (id) => document.getElementById(id);
const euros = (cents) => (cents / 100).toLocaleString("en-IE", { style: "currency", currency: "EUR" });
const total = CART.reduce((sum, [, cents]) => sum + cents, 0);

// The name of the action: the cart's, so that a reload, a second click and a second tab mean the same.
const cart = () => Number(localStorage.getItem("cart") ?? 1);
const intent = () => `cart/${cart()}/pay`;

const client = await Client.open({ application: "tea-for-two", scope: "guest" });
client.subscribe((notice) => notice.intent === intent() && show(notice));
let countdown;

/** Again: a person wants to know, also where the page itself has stopped asking. */
async function pay(again = false) {
  say("busy", again ? "Checking…" : "Paying…");
  try {
    const operation = await client.operation(intent(), {
      url: "/api/payments",
      json: { amount: total, currency: "EUR" },
    });
    reference(operation.reference); // on the screen before the first byte leaves
    ended(await (again ? operation.resume() : operation.send()));
  } catch (error) {
    trouble(error);
  }
}

async function resume() {
  const open = (await client.list("unfinished")).find((operation) => operation.intent === intent());
  if (open) {
    element("banner").hidden = false;
    say("busy", "Finishing your payment…");
    reference(open.reference);
  }
  for (const { operation, outcome, error } of await client.resumeAll()) {
    if (operation.intent !== intent()) continue;
    if (outcome) ended(outcome);
    else trouble(error);
  }
}

/** What happened to this cart before, if it is over. */
async function remembered() {
  const mine = (await client.list()).find((operation) => operation.intent === intent());
  // Until here the button could not be pressed: the page did not know yet what the cart has been through.
  element("pay").disabled = false;
  if (!mine) return;
  reference(mine.reference);
  if (mine.outcome) ended(mine.outcome);
  else if (mine.state === "attention") unknown();
}

function say(state, headline, detail = "") {
  clearInterval(countdown);
  element("state").dataset.state = state;
  element("headline").textContent = headline;
  element("detail").textContent = detail;
  element("seconds").textContent = "";
  element("pay").hidden = state !== "idle";
  element("unknown").hidden = state !== "unknown";
  element("next").hidden = !["done", "declined"].includes(state);
  element("next").textContent = state === "declined" ? "Try another card" : "New order";
}

function reference(text) {
  element("reference").textContent = text;
  element("reference-line").hidden = false;
}

function show(step) {
  switch (step.state) {
    case "sending":
      return say("busy", "Paying…", step.attempt > 1 ? `Attempt ${step.attempt}, under the same reference.` : "");
    case "offline":
      return say("busy", "You are offline.", "The payment goes on as soon as the network is back.");
    case "waiting": {
      const left = () => Math.max(0, Math.ceil((step.until - Date.now()) / 1000));
      // The seconds are for the eyes: read aloud, every tick would interrupt.
      const count = () => (element("seconds").textContent = `in ${left()} s`);
      say("busy", "Trying again", "The shop did not answer. It is asked again under the same reference.");
      count();
      countdown = setInterval(count, 250);
      return;
    }
    case "joined":
      return say("busy", "Another tab is paying.", "This one waits for its result.");
    case "attention":
      return unknown();
  }
}

function ended(outcome) {
  element("banner").hidden = true;
  if (outcome.ok) say("done", "Paid. Thank you!", `${euros(total)}, ${outcome.json()?.id ?? ""}`);
  else say("declined", "The payment was declined.", "Nothing was paid. Please use another card.");
  element("state").focus();
  void ledger();
}

function unknown() {
  element("banner").hidden = true;
  say("unknown", "We do not know yet whether you have paid.");
}

function trouble(error) {
  element("banner").hidden = true;
  if (error instanceof SamekeyError && error.unresolved) unknown();
  else say("declined", "Nothing was paid.", error.message);
  element("state").focus();
}

async function ledger() {
  const [{ keys }, { rules }] = await Promise.all(
    ["ledger", "faults"].map(async (what) => (await fetch(`/api/_mock/${what}`)).json()),
  );
  element("faults").textContent = rules.length ? `In force: ${rules.join(", ")}` : "The server is kind.";
  element("none").hidden = keys.length > 0;
  element("ledger").replaceChildren(
    ...keys.slice(-8).reverse().map((row) => {
      const line = document.createElement("tr");
      const code = document.createElement("code");
      code.textContent = row.reference;
      const cell = (content) => {
        const made = document.createElement("td");
        made.append(content);
        return made;
      };
      line.append(cell(code), cell(String(row.requests)), cell(String(row.effects)));
      return line;
    }),
  );
}

element("cart").append(
  ...CART.map(([name, cents]) => {
    const line = document.createElement("li");
    const price = document.createElement("span");
    price.textContent = euros(cents);
    line.append(name, price);
    return line;
  }),
);
element("total").textContent = euros(total);
element("pay").textContent = `Pay ${euros(total)}`;
element("pay").addEventListener("click", () => pay());
element("again").addEventListener("click", () => pay(true));
element("copy").addEventListener("click", async () => {
  await navigator.clipboard.writeText(element("reference").textContent);
  element("copy").textContent = "Copied";
});
element("next").addEventListener("click", () => {
  localStorage.setItem("cart", String(cart() + 1));
  location.reload();
});
for (const button of document.querySelectorAll("[data-fault]")) {
  button.addEventListener("click", async () => {
    await fetch("/api/_mock/faults", { method: "DELETE" });
    const { fault } = button.dataset;
    if (fault) await fetch("/api/_mock/faults", { method: "POST", body: JSON.stringify({ rule: fault }) });
    await ledger();
  });
}
element("trouble").disabled = false;
setInterval(ledger, 1_000);
await ledger();
await remembered();
await resume();
