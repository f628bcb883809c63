import { SamekeyError } from "./errors.js";
import type { Json } from "./types.js";

/** What an operation shows meanwhile, kept beside its journal. */
export interface Note {
  scope: string;
  intent: string;
  effect: string;
  args: Json;
  at: number;
}

/** Notes by scope and intent. One is written before its operation begins, so none is missed. */
export interface Notes {
  put(note: Note): Promise<void>;
  remove(note: Pick<Note, "scope" | "intent">): Promise<void>;
  all(scope: string): Promise<Note[]>;
}

function refused(error: unknown): SamekeyError {
  const full = (error as Partial<DOMException> | null)?.name === "QuotaExceededError";
  const message = `what the operation shows cannot be kept: ${error}; nothing was begun`;
  return new SamekeyError({ kind: "journal", reason: full ? "full" : "unavailable", message });
}

/** One transaction on a connection of its own: the browser may close one that is kept. */
const transact = <T>(name: string, mode: IDBTransactionMode, work: (notes: IDBObjectStore) => IDBRequest<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    const fail = (error: unknown) => reject(refused(error));
    const opening = indexedDB.open(name, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("notes", { keyPath: ["scope", "intent"] });
    opening.onerror = () => fail(opening.error);
    opening.onsuccess = () => {
      const database = opening.result;
      try {
        const transaction = database.transaction("notes", mode);
        const request = work(transaction.objectStore("notes"));
        transaction.oncomplete = () => resolve(request.result);
        transaction.onabort = () => fail(transaction.error);
      } catch (error) {
        fail(error);
      } finally {
        // When what was begun is done.
        database.close();
      }
    };
  });

/** Notes in IndexedDB, so that they survive what the journal survives. */
export const databaseNotes = (name: string): Notes => ({
  put: async (note) => void (await transact(name, "readwrite", (notes) => notes.put(note))),
  remove: ({ scope, intent }) => transact(name, "readwrite", (notes) => notes.delete([scope, intent])),
  all: (scope) => transact(name, "readonly", (notes) => notes.getAll(IDBKeyRange.bound([scope], [scope, []]))),
});

/** What an item says; what cannot be read shows nothing. */
function parsed(text: string | null | undefined): Note[] {
  try {
    return [JSON.parse(text ?? "") as Note];
  } catch {
    return [];
  }
}

/** Notes for the lesser stores: in localStorage where there is one, else in memory. */
export function plainNotes(name: string, storage: Storage | undefined): Notes {
  const memory = new Map<string, string>();
  const id = (note: Pick<Note, "scope" | "intent">) => `${name}\0${note.scope}\0${note.intent}`;
  return {
    async put(note) {
      const text = JSON.stringify(note);
      try {
        if (storage) storage.setItem(id(note), text);
        else memory.set(id(note), text);
      } catch (error) {
        throw refused(error);
      }
    },
    async remove(note) {
      storage?.removeItem(id(note));
      memory.delete(id(note));
    },
    async all(scope) {
      const ids = storage ? Object.keys(storage) : [...memory.keys()];
      return ids
        .filter((item) => item.startsWith(`${name}\0${scope}\0`))
        .flatMap((item) => parsed(storage ? storage.getItem(item) : memory.get(item)));
    },
  };
}
