import { SamekeyError } from "./errors.js";
import { complete, settled } from "./scripts.js";
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
async function transact<T>(name: string, mode: IDBTransactionMode, work: (notes: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  let database: IDBDatabase | undefined;
  try {
    const opening = indexedDB.open(name, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("notes", { keyPath: ["scope", "intent"] });
    database = await settled(opening);
    const transaction = database.transaction("notes", mode);
    const request = work(transaction.objectStore("notes"));
    await complete(transaction);
    return request.result;
  } catch (error) {
    throw refused(error);
  } finally {
    database?.close();
  }
}

/** Notes in IndexedDB, so that they survive what the journal survives. */
export const databaseNotes = (name: string): Notes => ({
  put: async (note) => void (await transact(name, "readwrite", (notes) => notes.put(note))),
  remove: ({ scope, intent }) => transact(name, "readwrite", (notes) => notes.delete([scope, intent])),
  all: (scope) => transact(name, "readonly", (notes) => notes.getAll(IDBKeyRange.bound([scope], [scope, []]))),
});

/** What an item says; what cannot be read shows nothing. */
function parsed(text: string | null): Note[] {
  try {
    return [JSON.parse(text!) as Note];
  } catch {
    return [];
  }
}

/** Notes for the lesser stores. */
export function plainNotes(name: string, storage: Storage): Notes {
  const id = ({ scope, intent }: Pick<Note, "scope" | "intent">) => `${name}\0${scope}\0${intent}`;
  return {
    async put(note) {
      try {
        storage.setItem(id(note), JSON.stringify(note));
      } catch (error) {
        throw refused(error);
      }
    },
    async remove(note) {
      storage.removeItem(id(note));
    },
    async all(scope) {
      const items = Object.keys(storage).filter((item) => item.startsWith(`${name}\0${scope}\0`));
      return items.flatMap((item) => parsed(storage.getItem(item)));
    },
  };
}
