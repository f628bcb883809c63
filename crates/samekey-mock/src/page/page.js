// The page reads the ledger and draws it; it decides nothing.
"use strict";

// Every step: its icon, its colour, its word, and what it means. `solid` marks what changed the world.
const STEPS = {
  "arrived": ["arrived", "", "arrived", "the request was read"],
  "reserved": ["reserved", "blue", "reserved", "the key was reserved before any work"],
  "held": ["held", "blue gap", "working", "the worker holds the reservation"],
  "effect": ["effect", "blue solid", "effect", "something happened in the world"],
  "stored": ["stored", "blue", "stored", "the answer is kept under the key"],
  "released": ["stored", "orange gap", "released", "the key is free for a retry"],
  "replayed": ["replayed", "green", "replayed", "the stored answer, nothing happened again"],
  "in-flight": ["wait", "orange", "409 in flight", "the first is still at work: come back"],
  "mismatch": ["unequal", "red", "other body", "the key belongs to another request"],
  "review": ["warn", "red", "under review", "a person must look at this key"],
  "expired": ["held", "orange", "expired", "the key's life is over"],
  "key-missing": ["stop", "orange", "no key", "refused: a key is required"],
  "key-invalid": ["stop", "orange", "bad key", "refused: not an acceptable key"],
  "malformed": ["stop", "orange", "unreadable", "refused: the body cannot be read"],
  "too-old": ["stop", "orange", "too old", "refused: the request is too old"],
  "limited": ["stop", "orange", "too many", "429: too many keys"],
  "store-down": ["stop", "orange", "store down", "503: keys cannot be checked, nothing was done"],
  "unprotected": ["warn", "red", "unprotected", "it ran without any key"],
  "fenced": ["stop", "violet", "fenced", "the worker had lost its lock; its work was taken back"],
  "crashed": ["lost", "violet", "crashed", "the worker died"],
  "redirected": ["answered", "violet gap", "redirected", "sent elsewhere"],
  "gateway": ["bolt", "violet", "gateway", "something in between answered"],
  "forgotten": ["warn", "violet gap", "forgotten", "the key was forgotten too early"],
  "answered": ["answered", "", "answered", "the answer left for the client"],
  "dropped": ["lost", "red gap", "answer lost", "the client never got the answer"],
};
const LEGEND = ["reserved", "effect", "stored", "replayed", "in-flight", "mismatch", "dropped", "fenced"];
const COMMON = 8;
const ASK = { item: "tea", quantity: 1 };

const $ = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

function step(event) {
  const [shape, tone, word, meaning] = STEPS[event] ?? ["warn", "", event, event];
  return make("span", { class: `step ${tone}`, title: meaning }, icon(shape), word);
}

const plural = (n, one, many) => `${n} ${n === 1 ? one : many}`;

// ---------------------------------------------------------------- figures

function figures(state, ledger) {
  const had = (event) => ledger.requests.filter((r) => r.events.includes(event)).length;
  const { effects, duplicate_effects: twice, reruns_after_expiry: late } = state.gauges;
  const arrived = Object.values(state.counts.by_tenant).reduce((sum, row) => sum + (row["arrived"] ?? 0), 0);
  const list = [
    ["requests", arrived, "arrived", ""],
    ["effects", effects, "effect", "main once"],
    ["replays", had("replayed"), "replayed", ""],
    ["in flight (409)", had("in-flight"), "wait", ""],
    ["other body", had("mismatch"), "unequal", ""],
    ["answers lost", had("dropped"), "lost", ""],
    [twice ? "happened twice!" : late ? `twice (${late} after expiry)` : "happened twice", twice, twice ? "warn" : "check", twice ? "main bad" : "good"],
  ];
  $("figures").replaceChildren(...list.map(([name, value, shape, tone]) =>
    make("div", { class: `figure ${tone}`, "data-figure": name }, make("b", {}, String(value)), make("span", {}, icon(shape), name))));
}

function alerts(state) {
  $("alerts").replaceChildren(...state.alerts.map((alert) =>
    make("div", { class: "alert", "data-alert": alert.name }, icon("warn"), make("span", {}, make("b", {}, alert.name), ` ${alert.says}`))));
}

function chips(state) {
  const list = [["node", state.node], ["profile", state.profile], ["store", state.file ?? "memory"], ["clock", state.date.slice(5, 25)]];
  if (state.store_down) list.push(["key store", "down"]);
  if (state.held) list.push(["gate", "closed"]);
  $("chips").replaceChildren(...list.map(([name, value]) => make("li", {}, `${name} `, make("b", {}, value))));
}

// ---------------------------------------------------------------- keys

// Requests and keys of the ledger, put together: one card per tenant, operation and key.
function cards(ledger) {
  const all = new Map();
  const card = (tenant, operation, key) => {
    const id = JSON.stringify([tenant, operation, key]);
    if (!all.has(id)) all.set(id, { id, tenant, operation, key, requests: [], row: null });
    return all.get(id);
  };
  for (const row of ledger.keys) card(row.tenant, row.operation, row.key).row = row;
  for (const request of ledger.requests) {
    const path = request.path.split("?")[0].replace(/^(\/[^/]+)\/.+$/, "$1/{}");
    card(request.tenant, `${request.method} ${path}`, request.key).requests.push(request);
  }
  const age = (c) => c.requests.length ? c.requests[0].id : 0;
  return [...all.values()].sort((a, b) => age(b) - age(a));
}

function verdict(card) {
  const effects = card.row ? card.row.effects : card.requests.filter((r) => r.effect).length;
  const tone = effects > 1 ? "bad" : effects === 1 ? "once" : "none";
  const shape = effects > 1 ? "warn" : effects === 1 ? "effect" : "arrived";
  const words = effects > 1 ? "effects: it happened twice" : effects === 1 ? "effect" : "effects";
  return make("div", { class: `verdict ${tone}`, "data-effects": effects }, make("span", { class: "count" }, String(effects)), icon(shape), words);
}

function timeline(request, first, fresh) {
  const lost = request.events.includes("dropped") && !request.events.includes("gateway");
  const offset = request.at - first;
  const when = offset === 0 ? "first" : offset < 10000 ? `+${offset} ms` : offset < 7200000 ? `+${Math.round(offset / 1000)} s` : `+${Math.round(offset / 3600000)} h`;
  const steps = request.events.filter((e) => e !== "arrived" && e !== "answered").map(step);
  const faults = request.faults.map((fault) => make("span", { class: "fault", title: "a fault struck this request" }, icon("bolt"), fault));
  return make("li", {
    class: `request ${fresh ? "new" : ""}`, "data-id": request.id, "data-key": request.key ?? "", "data-tenant": request.tenant,
    "data-events": request.events.join(" "), "data-status": request.status ?? "", "data-faults": request.faults.join(" "), "data-effect": request.effect ?? "",
  },
  make("time", { title: new Date(request.at).toISOString() }, when),
  make("div", { class: "steps" }, ...faults, ...steps, request.events.includes("answered") ? step("answered") : null),
  make("span", { class: `status ${lost ? "lost" : ""}`, title: lost ? "this answer never arrived" : "status" }, request.status === null ? "—" : String(request.status)));
}

let drawn = new Map();

function keys(ledger) {
  const wanted = $("filter").value.trim().toLowerCase();
  const fits = (c) => !wanted || [c.key, c.row?.reference, c.tenant, c.operation].some((t) => t && t.toLowerCase().includes(wanted));
  const list = cards(ledger).filter(fits);
  const next = new Map();
  for (const card of list) {
    const mark = JSON.stringify([card.row, card.requests.map((r) => [r.id, r.events, r.status])]);
    const before = drawn.get(card.id);
    if (before && before.mark === mark) { next.set(card.id, before); continue; }
    const first = card.requests.length ? card.requests[0].at : 0;
    const known = before ? before.count : card.requests.length;
    const state = card.row?.state ? ` · ${card.row.state}` : card.key ? " · forgotten" : "";
    const element = make("article", { class: "key", "data-card": card.key ?? "" },
      make("header", {},
        make("div", { class: "name" },
          make("div", { class: "reference mono" }, card.row?.reference ?? card.key ?? "no key"),
          make("div", { class: "full" }, `${card.tenant} · ${card.operation} · ${plural(card.requests.length, "try", "tries")}${state}`),
          card.row?.reference ? make("div", { class: "full mono" }, card.key) : null),
        verdict(card)),
      make("ol", { class: "requests" }, ...card.requests.map((r, i) => timeline(r, first, i >= known))));
    next.set(card.id, { mark, element, count: card.requests.length });
  }
  drawn = next;
  $("keys").replaceChildren(...[...next.values()].map((entry) => entry.element));
  $("empty").hidden = ledger.requests.length > 0 || ledger.keys.length > 0;
  $("shown").textContent = list.length ? `${list.length}` : "";
}

// ---------------------------------------------------------------- controls

const control = (method, path, body) => fetch(`/_mock/${path}`, { method, body: body && JSON.stringify(body) }).then(look);

function controls(state) {
  const inForce = state.rules.map((rule) => rule.split(/[:*+%@#]/)[0]);
  if (!$("faults").childElementCount) {
    const menu = state.menu.map((fault) => {
      const button = make("button", { "data-fault": fault, title: "click: the next request; with Shift: every request" }, fault);
      button.addEventListener("click", (event) => control("POST", "faults", { rule: event.shiftKey ? fault : `${fault}*1` }));
      return button;
    });
    $("faults").replaceChildren(...menu.slice(0, COMMON));
    $("more").replaceChildren(...menu.slice(COMMON));
    $("habits").replaceChildren(...state.naughty.map((habit) => {
      const box = make("input", { type: "checkbox", "data-habit": habit.name });
      box.addEventListener("change", () => control("POST", "naughty", { name: habit.name, on: box.checked }));
      return make("li", {}, make("label", {}, box, make("b", {}, habit.name), make("small", {}, habit.about)));
    }));
    $("legend").replaceChildren(...LEGEND.map((event) => make("li", {}, step(event), STEPS[event][3])));
    $("curl").textContent = `curl -i ${location.origin}/orders \\\n  -H 'Idempotency-Key: ${crypto.randomUUID()}' \\\n  -H 'Authorization: Bearer acme' \\\n  --json '{"item":"tea"}'`;
  }
  for (const button of document.querySelectorAll("[data-fault]")) {
    button.setAttribute("aria-pressed", inForce.includes(button.dataset.fault.split(":")[0]));
  }
  for (const habit of state.naughty) document.querySelector(`[data-habit="${habit.name}"]`).checked = habit.on;
  const on = state.naughty.filter((habit) => habit.on).length;
  $("habits-summary").textContent = on ? `${plural(on, "switch", "switches")} on` : "All switches";
  $("rules").replaceChildren(...state.rules.map((rule) => make("li", { class: "fault" }, icon("bolt"), rule)));
  $("calm").hidden = state.rules.length === 0;
}

let last = null;

async function send(key, body) {
  const headers = { "Content-Type": "application/json", "Authorization": "Bearer this-page" };
  if (key) headers["Idempotency-Key"] = key;
  try {
    const answer = await fetch("/orders", { method: "POST", headers, body: JSON.stringify(body) });
    return `${answer.status}${answer.headers.get("Idempotent-Replayed") ? ", replayed" : ""}`;
  } catch {
    return "no answer: did it happen? Try again with the same key.";
  }
}

async function demo(kind) {
  if (kind === "new" || kind === "crowd") last = crypto.randomUUID();
  for (const button of document.querySelectorAll('[data-send="again"], [data-send="other"]')) button.disabled = !last;
  let said;
  if (kind === "crowd") {
    const key = last;
    const answers = await Promise.all(Array.from({ length: 64 }, () => send(key, ASK)));
    const fresh = answers.filter((a) => a === "201").length;
    said = `64 answers: ${fresh} fresh, ${answers.filter((a) => a.includes("replayed")).length} replayed, ${answers.filter((a) => a.startsWith("409")).length} told to come back`;
  } else if (kind === "nokey") {
    said = await send(null, ASK);
  } else {
    said = await send(last, kind === "other" ? { ...ASK, quantity: 2 } : ASK);
  }
  $("said").textContent = `Answer: ${said}`;
  look();
}

// ---------------------------------------------------------------- the loop

let version = null;
let ledger = null;

async function look() {
  try {
    const state = await (await fetch("/_mock/state")).json();
    if (state.version !== version || ledger === null) {
      ledger = await (await fetch("/_mock/ledger?last=400")).json();
      version = state.version;
      keys(ledger);
    }
    figures(state, ledger);
    alerts(state);
    chips(state);
    controls(state);
    $("pulse").textContent = "live";
    document.body.dataset.version = version;
  } catch {
    $("pulse").textContent = "the server does not answer";
  }
}

$("send").addEventListener("click", (event) => {
  const button = event.target.closest("[data-send]");
  if (button) demo(button.dataset.send);
});
$("calm").addEventListener("click", () => control("DELETE", "faults"));
$("filter").addEventListener("input", () => { drawn = new Map(); if (ledger) keys(ledger); });
setInterval(() => { if (!document.hidden) look(); }, 700);
look();
