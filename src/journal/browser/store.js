// Where a page keeps rows: IndexedDB, localStorage, or memory.
//
// A row is { slot, name, key, frozen, progress, revision, open, gone }. Rust decides what it says; here rows
// are found, written whole, and refused if somebody else wrote first. Written by hand, because bindings for
// all of this would be most of what a page downloads. What goes wrong is thrown as { kind, message }.

/** The layout of the database, and of the items in localStorage. */
const LAYOUT = 1;
/** How often a tab says that it lives, and after how long without a word it is frozen: with the time to
 * notice it, a lease. */
const BEAT_EVERY = 5_000;
const SILENT_AFTER = 25_000;
const DAY = 86_400_000;
/** Room that is given up when the quota is reached, so that outcomes can still be written. */
const BALLAST = 65_536;
/** How long a page that is being left may take to let go of localStorage. */
const PATIENCE = 3_000;

// As Rust counts them.
const [UNAVAILABLE, FULL, TOO_NEW, OPEN_ELSEWHERE] = [0, 1, 2, 3];
const [NONE, RELOAD, PROCESS, DEVICE] = [0, 1, 2, 3];
const [DEAD, SILENT, ALIVE] = [0, 1, 2];

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

const settled = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

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
  add(name, key, frozen, progress, open) {
    return this.create({ name, key, frozen: frozen.slice(), progress: progress.slice(), revision: 1, open: open ? 1 : undefined, gone: false });
  }

  /** Replaces a row's content, if it still has this revision; says whether. Tombstones stay. */
  swap(slot, key, revision, frozen, progress, open, gone, full) {
    const change = { progress: progress.slice(), revision: revision + 1, open: open ? 1 : undefined, gone };
    if (frozen) change.frozen = frozen.slice();
    const fits = (row) => row?.key === key && row.revision === revision && !row.gone;
    return this.replace(slot, fits, change, full ? "strict" : "relaxed");
  }

  /** Nobody waits for the answer of this `add`: what it made is let go. */
  letGo(asked, key, progress) {
    const copy = progress.slice();
    const swap = (slot) => typeof slot === "number" && this.swap(slot, key, 1, undefined, copy, true, false, false);
    asked.then(swap).catch(() => {});
  }

  /** Rows by slot: all, or the open ones; of all scopes, or of one. */
  async rows(open, scope) {
    const rows = await this.all(open);
    return rows.filter(({ name }) => scope === undefined || name.startsWith(`${scope}\0`));
  }

  async wipe(scope) {
    const rows = await this.rows(false, scope);
    for (const { slot } of rows) await this.remove(slot);
    return rows.length;
  }

  async liveness(id) {
    const alive = own.get(hex(id));
    return alive === undefined ? this.stranger(hex(id)) : alive ? ALIVE : DEAD;
  }

  close() {
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
    await this.beat();
    await this.run("relaxed", ({ ballast, owners }) => {
      owners.openCursor().onsuccess = ({ target: { result: cursor } }) => {
        if (!cursor) return;
        if (cursor.value < Date.now() - DAY) cursor.delete();
        cursor.continue();
      };
      ballast.put(new Uint8Array(BALLAST), 0);
    }).catch((error) => {
      // Without room for the reserve the journal still works.
      if (error.kind !== FULL) throw error;
    });
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
      database.createObjectStore("ballast");
    };
    const database = await settled(opening);
    // A newer release, or the user who clears the site's data, need not wait for this tab.
    database.onversionchange = () => database.close();
    return database;
  }

  /** One transaction, on a new connection if the browser closed the old one; resolves to what `work` says
   * is done when all of it is as durable as was asked for. */
  async run(durability, work) {
    const mode = durability ? "readwrite" : "readonly";
    const begin = () => this.database.transaction(["entries", "owners", "ballast"], mode, durability && { durability });
    try {
      let tx;
      try {
        tx = begin();
      } catch {
        this.database = await this.connect();
        tx = begin();
      }
      const store = (name) => tx.objectStore(name);
      return await new Promise((resolve, reject) => {
        let result;
        tx.oncomplete = () => resolve(result);
        tx.onabort = () => reject(tx.error);
        const stores = { entries: store("entries"), owners: store("owners"), ballast: store("ballast") };
        work(stores, (done) => (result = done), tx);
      });
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
    try {
      return await write();
    } catch (error) {
      if (error.kind !== FULL) throw error;
      await this.run("relaxed", ({ ballast }) => ballast.clear());
      return write();
    }
  }

  get(slot) {
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
    const seen = await this.ask(({ owners }) => owners.get(id));
    return seen === undefined ? DEAD : Date.now() - seen > SILENT_AFTER ? SILENT : ALIVE;
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
      this.storage.setItem(this.prefix, "x".repeat(BALLAST / 4));
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

  async get(slot) {
    return this.find(slot);
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

/** The parts of `Storage` that are used, for a journal that forgets. */
class Memory {
  getItem(item) {
    return this[item] ?? null;
  }
  setItem(item, value) {
    this[item] = value;
  }
  removeItem(item) {
    delete this[item];
  }
}

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

export const openMemory = async (name) => new Items(new Memory(), name, NONE);

export async function openIndexedDb(name) {
  const store = new Database(name);
  try {
    await store.open();
    return store;
  } catch (error) {
    store.close();
    throw refused("the journal cannot be opened", error);
  }
}

/** Whether localStorage can be used: looking at it throws where it is blocked. */
export async function probeLocalStorage() {
  try {
    localStorage.setItem("samekey:probe", "x");
    localStorage.removeItem("samekey:probe");
  } catch (error) {
    // A full one can still be read, and finish what it holds.
    const refusal = refused("localStorage cannot be used", error);
    if (refusal.kind !== FULL) throw refusal;
  }
}

export async function openLocalStorage(name, storage) {
  if (!shelves.has(name)) shelves.set(name, shelf(name));
  try {
    const mine = await shelves.get(name);
    mine.users++;
    return new Items(storage, name, RELOAD, () => {
      if (--mine.users) return;
      mine.release();
      shelves.delete(name);
    });
  } catch (error) {
    shelves.delete(name);
    throw refused("localStorage cannot be used", error);
  }
}
