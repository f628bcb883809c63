// Where a page keeps rows: IndexedDB, localStorage, or memory.
//
// A row is { slot, name, key, frozen, progress, revision, open, gone }. Rust decides what it says; here rows
// are found, written whole, and refused if somebody else wrote first. Written by hand, because bindings for
// all of this would be most of what a page downloads. What goes wrong is thrown as { kind, message }.

import { asking } from "../../seam/border.js";

/** The layout of the database, and of the items in localStorage. */
const LAYOUT = 1;
/** How often a tab says that it lives, and after how long without a word it is frozen: with the time to
 * notice it, a lease. */
const BEAT_EVERY = 5_000;
const SILENT_AFTER = 25_000;
const DAY = 86_400_000;
/** Room that is given up when the quota is reached, so that outcomes can still be written. In IndexedDB it is a database
 * of its own, with content that cannot be compressed and is large enough to become a file: of all else that is
 * deleted, Chromium keeps the room until it tidies up. */
const RESERVE = 262_144;
const ITEM_RESERVE = 16_384;
/** How often a write is tried again while the browser notices that there is room. */
const PATIENT_TRIES = 10;
/** How long a page that is being left may take to let go of localStorage. */
const PATIENCE = 3_000;

// As Rust counts them.
const UNAVAILABLE = 0;
const FULL = 1;
const TOO_NEW = 2;
const OPEN_ELSEWHERE = 3;
const NONE = 0;
const RELOAD = 1;
const PROCESS = 2;
const DEVICE = 3;
const DEAD = 0;
const SILENT = 1;
const ALIVE = 2;

/** What the browser said, what it means, and what to do. */
function refused(what, error) {
  if (error?.kind !== undefined) return error;
  const said = error?.message ?? error ?? "it does not say why";
  const [kind, advice] =
    error?.name === "QuotaExceededError"
      ? [FULL, "the browser's storage is full; free some, then try again"]
      : error?.name === "VersionError"
        ? [TOO_NEW, "a newer samekey wrote it; reload the page to get that release"]
        : [UNAVAILABLE, "allow this site to store data, or leave private browsing, then try again"];
  return { kind, message: `${what}: ${said}; ${advice}` };
}

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** The browser's locks; it has none on a page without https. */
const locks = () => globalThis.navigator?.locks;

/** Takes a lock if nobody has it: a function that lets it go, or nothing. The tab's end lets it go too. */
const take = (name) =>
  new Promise((resolve, reject) => {
    const granted = (lock) => (lock ? new Promise((release) => resolve(release)) : resolve());
    locks().request(name, { ifAvailable: true }, granted).catch(reject);
  });

export const settled = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

export const complete = (tx) =>
  new Promise((resolve, reject) => {
    tx.oncomplete = resolve;
    tx.onabort = () => reject(tx.error);
  });

/** A row as Rust reads it. */
export const told = ({ slot, name, key, frozen, progress, revision, gone }) => [slot, name, key, frozen, progress, revision, gone];

/** The owners that this page made, and whether they live: the browser's word on them lags behind. */
const own = new Map();

/** One open handle, and so one owner. */
class Store {
  owner = crypto.getRandomValues(new Uint8Array(16));
  grade = NONE;

  constructor() {
    own.set(hex(this.owner), true);
  }

  /** Get or create: the slot of the new row, or the row that is there. */
  async add(name, key, frozen, progress, open) {
    const found = await this.create({ name, key, frozen, progress, revision: 1, open: open ? 1 : undefined, gone: false });
    return found.key ? told(found) : found;
  }

  /** Replaces a row's content, if it still has this revision, of this owner and epoch: Rust hands in the bytes
   * that stand for them behind a progress' phase. Says whether. Tombstones stay. */
  swap(slot, key, revision, expected, frozen, progress, open, gone, full) {
    const change = { progress, revision: revision + 1, open: open ? 1 : undefined, gone: !!gone };
    if (frozen) change.frozen = frozen;
    const ours = ({ progress: old }) => expected.every((byte, i) => old[(old[2] === 1 ? 4 : 3) + i] === byte);
    const fits = (row) => row?.key === key && row.revision === revision && !row.gone && ours(row);
    return this.replace(slot, fits, change, full ? "strict" : "relaxed");
  }

  /** The row in this slot, if it is of this key and not a tombstone. */
  async get(slot, key) {
    const row = await this.find(slot);
    return row?.key === key && !row.gone ? told(row) : [];
  }

  /** Rows by slot: all, or the open ones; of all scopes, or of one. */
  async some(open, scope) {
    const rows = await this.all(open);
    return rows.filter(({ name }) => scope === undefined || name.startsWith(`${scope}\0`));
  }

  async wipe(scope) {
    const rows = await this.some(false, scope);
    for (const { slot } of rows) await this.remove(slot);
    return rows.length;
  }

  async liveness(id) {
    const alive = own.get(hex(id));
    return alive === undefined ? this.stranger(hex(id)) : alive ? ALIVE : DEAD;
  }

  async close() {
    own.set(hex(this.owner), false);
    this.end?.();
  }
}

/** For as many tabs as there are. A Web Lock proves that a tab lives, its heartbeat that it is not frozen. */
class Database extends Store {
  constructor(name) {
    super();
    this.name = name;
    this.id = hex(this.owner);
    /** The beats of other tabs, and since when they are the same. */
    this.watched = new Map();
  }

  async open() {
    this.database = await this.connect();
    const release = locks() && (await take(`samekey:${this.id}`));
    // A beat that is missed is made up for by the next.
    const pulse = setInterval(() => this.beat().catch(() => {}), BEAT_EVERY);
    this.end = () => {
      clearInterval(pulse);
      release?.();
      this.database.close();
    };
    await this.insist(() => this.beat());
    await this.run("relaxed", ({ owners }) => {
      owners.openCursor().onsuccess = ({ target: { result: cursor } }) => {
        if (!cursor) return;
        if (cursor.value < Date.now() - DAY) cursor.delete();
        cursor.continue();
      };
    }).catch((error) => {
      if (error.kind !== FULL) throw error;
    });
    // Without room for the reserve the journal still works.
    await this.keepReserve().catch(() => {});
    const strict = await this.run("strict", (_, done, { durability }) => done(durability === "strict"));
    this.grade = strict ? DEVICE : PROCESS;
  }

  async connect() {
    const opening = indexedDB.open(this.name, LAYOUT);
    opening.onupgradeneeded = () => {
      const database = opening.result;
      const entries = database.createObjectStore("entries", { keyPath: "slot", autoIncrement: true });
      entries.createIndex("name", "name", { unique: true });
      entries.createIndex("open", "open");
      database.createObjectStore("owners");
    };
    const database = await settled(opening);
    // A newer release, or the user who clears the site's data, need not wait for this tab.
    database.onversionchange = () => database.close();
    return database;
  }

  /** Made once: it is written together with its database. */
  async keepReserve() {
    const opening = indexedDB.open(`${this.name}:reserve`, LAYOUT);
    opening.onupgradeneeded = () => {
      const filling = new Uint8Array(RESERVE);
      for (let at = 0; at < RESERVE; at += 65_536) crypto.getRandomValues(filling.subarray(at, at + 65_536));
      opening.result.createObjectStore("reserve").put(filling, 0);
    };
    (await settled(opening)).close();
  }

  /** A write that may use the reserve. */
  async insist(write) {
    for (let tries = 0; ; tries++) {
      try {
        return await write();
      } catch (error) {
        if (error.kind !== FULL || tries === PATIENT_TRIES) throw error;
        await settled(indexedDB.deleteDatabase(`${this.name}:reserve`)).catch(() => {});
        if (tries) await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
  }

  /** One transaction, on a new connection if the browser closed the old one; resolves to what `work` says
   * is done when all of it is as durable as was asked for. */
  async run(durability, work) {
    const mode = durability ? "readwrite" : "readonly";
    const begin = () => this.database.transaction(["entries", "owners"], mode, durability && { durability });
    try {
      let tx;
      try {
        tx = begin();
      } catch {
        this.database = await this.connect();
        tx = begin();
      }
      const store = (name) => tx.objectStore(name);
      let result;
      work({ entries: store("entries"), owners: store("owners") }, (done) => (result = done), tx);
      await complete(tx);
      return result;
    } catch (error) {
      throw refused("the journal did not answer", error);
    }
  }

  ask(of) {
    return this.run(undefined, (stores, done) => (of(stores).onsuccess = ({ target }) => done(target.result)));
  }

  beat() {
    return this.run("relaxed", ({ owners }) => owners.put(Date.now(), this.id));
  }

  create(row) {
    return this.run("strict", ({ entries }, done) => {
      entries.index("name").get(row.name).onsuccess = ({ target: { result: found } }) => {
        if (found) done(found);
        else entries.add(row).onsuccess = ({ target }) => done(target.result);
      };
    });
  }

  async replace(slot, fits, change, durability) {
    const write = () =>
      this.run(durability, ({ entries }, done) => {
        entries.get(slot).onsuccess = ({ target: { result: row } }) => {
          done(fits(row));
          if (fits(row)) entries.put({ ...row, ...change });
        };
      });
    return this.insist(write);
  }

  find(slot) {
    return this.ask(({ entries }) => entries.get(slot));
  }

  all(open) {
    return this.ask(({ entries }) => (open ? entries.index("open") : entries).getAll());
  }

  remove(slot) {
    return this.run("strict", ({ entries }) => entries.delete(slot));
  }

  async stranger(id) {
    if (locks()) {
      const { held } = await locks().query();
      if (!held.some(({ name }) => name === `samekey:${id}`)) return DEAD;
    }
    const beat = await this.ask(({ owners }) => owners.get(id));
    if (beat === undefined) return DEAD;
    // Clocks jump, as after a sleep, and then a tab that lives looks like a silent one: for as long as it takes until
    // its next beat, only what was watched counts.
    const now = performance.now();
    const watched = this.watched.get(id);
    const begun = watched?.beat === beat && now - watched.looked < BEAT_EVERY ? watched.begun : now;
    this.watched.set(id, { beat, begun, looked: now });
    return now - begun > (Date.now() - beat > SILENT_AFTER ? BEAT_EVERY + 1_000 : SILENT_AFTER) ? SILENT : ALIVE;
  }
}

/** What an item's value says. One character per byte: localStorage counts characters. */
function unpack(value) {
  const [head, gone, open, revision, length] = /^([01])([01])(\d+):(\d+):/.exec(value) ?? [];
  const whole = head && !/[^\0-\xff]/.test(value);
  const bytes = Uint8Array.from(whole ? value.slice(head.length) : "", (c) => c.charCodeAt(0));
  return {
    frozen: bytes.subarray(0, length),
    progress: bytes.subarray(length),
    revision: Number(revision ?? 0),
    // What cannot be read is shown among the open ones.
    open: open !== "0",
    gone: gone === "1",
  };
}

const latin = (bytes) => Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");

const pack = ({ frozen, progress, revision, open, gone }) =>
  `${gone ? 1 : 0}${open ? 1 : 0}${revision}:${frozen.length}:${latin(frozen)}${latin(progress)}`;

/** For one tab at a time. One item per row; key and intent stand in its name, so that a value that cannot be
 * read still guards its action. */
class Items extends Store {
  constructor(storage, name, grade, end) {
    super();
    Object.assign(this, { storage, grade, end, prefix: `samekey:${LAYOUT}:${name}:` });
    try {
      this.storage.setItem(this.prefix, "x".repeat(ITEM_RESERVE));
    } catch {
      // Without room for the reserve the journal still works.
    }
  }

  /** At one go, as all of this store: what one call has looked at, no other can change before it writes. */
  scan(open) {
    const rows = [];
    for (const item of Object.keys(this.storage)) {
      if (!item.startsWith(this.prefix) || item === this.prefix) continue;
      const [slot, key, ...name] = item.slice(this.prefix.length).split("\0");
      const row = { item, slot: Number(slot), key, name: name.join("\0"), ...unpack(this.storage.getItem(item)) };
      if (row.open || !open) rows.push(row);
    }
    return rows.sort((a, b) => a.slot - b.slot);
  }

  find(wanted) {
    return this.scan().find(({ slot }) => slot === wanted);
  }

  async all(open) {
    return this.scan(open);
  }

  write(item, row) {
    const value = pack(row);
    try {
      this.storage.setItem(item, value);
    } catch (error) {
      throw refused("the journal did not take the write", error);
    }
    if (this.storage.getItem(item) !== value) throw refused("the journal did not keep what was written");
  }

  async create(row) {
    const rows = this.scan();
    const found = rows.find(({ name }) => name === row.name);
    if (found) return found;
    const slot = (rows.at(-1)?.slot ?? 0) + 1;
    this.write([`${this.prefix}${slot}`, row.key, row.name].join("\0"), row);
    return slot;
  }

  async replace(slot, fits, change) {
    const row = this.find(slot);
    if (!fits(row)) return false;
    try {
      this.write(row.item, { ...row, ...change });
    } catch (error) {
      if (error.kind !== FULL) throw error;
      this.storage.removeItem(this.prefix);
      this.write(row.item, { ...row, ...change });
    }
    return true;
  }

  async remove(slot) {
    const row = this.find(slot);
    if (row) this.storage.removeItem(row.item);
  }

  /** Only this tab can be at work. */
  stranger() {
    return DEAD;
  }
}

/** The parts of `Storage` that are used, for a journal that forgets: its items are its own members. */
export const memory = () =>
  Object.create({
    getItem(item) {
      return this[item] ?? null;
    },
    setItem(item, value) {
      this[item] = value;
    },
    removeItem(item) {
      delete this[item];
    },
  });

/** Journals in localStorage that this page has open, each under one lock. */
const shelves = new Map();

/** The tab's lock on a journal. A page that was just left may hold it a moment longer. */
async function shelf(name) {
  if (!locks()) {
    const why = "localStorage is safe for one tab only, and this browser has no Web Locks to make sure of that here; serve the page over https";
    throw { kind: UNAVAILABLE, message: why };
  }
  for (const end = Date.now() + PATIENCE; ; await new Promise((resolve) => setTimeout(resolve, 50))) {
    const release = await take(`samekey:${LAYOUT}:${name}`);
    if (release) return { release, users: 0 };
    if (Date.now() > end) {
      throw { kind: OPEN_ELSEWHERE, message: "the journal is open in another tab; close that one, then reload" };
    }
  }
}

const openers = {
  async memory(name) {
    return new Items(memory(), name, NONE);
  },

  async indexeddb(name) {
    const store = new Database(name);
    try {
      await store.open();
      return store;
    } catch (error) {
      store.close();
      throw refused("the journal cannot be opened", error);
    }
  },

  async localstorage(name) {
    try {
      // Looking at it throws where it is blocked.
      localStorage.setItem("samekey:probe", "x");
      localStorage.removeItem("samekey:probe");
    } catch (error) {
      // A full one can still be read, and finish what it holds.
      const refusal = refused("localStorage cannot be used", error);
      if (refusal.kind !== FULL) throw refusal;
    }
    if (!shelves.has(name)) shelves.set(name, shelf(name));
    try {
      const mine = await shelves.get(name);
      mine.users++;
      return new Items(localStorage, name, RELOAD, () => {
        if (--mine.users) return;
        mine.release();
        shelves.delete(name);
      });
    } catch (error) {
      shelves.delete(name);
      throw refused("localStorage cannot be used", error);
    }
  },
};

/** Opens the store of this kind and name. */
export const open = (kind, name) => openers[kind](name);

/** Open stores by the number that Rust knows them by. */
const stores = [];

/** What Rust asks of an open store, where that is not quite what the store does. */
const answers = {
  /** If nobody waits for the answer, what was made is let go. */
  add(store, leash, ...values) {
    const [, key, , , , released, ours] = values;
    const added = store.add(...values);
    const letGo = (slot) => slot.length || store.swap(slot, key, 1, ours, undefined, released, true, false, false);
    leash.signal.onabort = () => void added.then(letGo).catch(() => {});
    return added;
  },

  async rows(store, _, open, scope) {
    return (await store.some(open, scope)).flatMap(told);
  },
};

export const ask = /* @__PURE__ */ asking(async (leash, what, which, ...values) => {
  const store = stores[which];
  if (answers[what]) return answers[what](store, leash, ...values);
  if (store) return store[what](...values);
  const opening = open(what, which);
  leash.signal.onabort = () => void opening.then((store) => store.close()).catch(() => {});
  const opened = await opening;
  return [stores.push(opened) - 1, opened.grade, opened.owner];
});
