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

const settled = <T>(request: IDBRequest<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

/** Notes in IndexedDB, so that they survive what the journal survives. */
export async function databaseNotes(name: string): Promise<Notes> {
  const opening = indexedDB.open(name, 1);
  opening.onupgradeneeded = () => {
    opening.result.createObjectStore("notes", { keyPath: ["scope", "intent"] });
  };
  const database = await settled(opening);
  database.onversionchange = () => database.close();
  const notes = (mode: IDBTransactionMode) => database.transaction("notes", mode).objectStore("notes");
  return {
    put: async (note) => void (await settled(notes("readwrite").put(note))),
    remove: async ({ scope, intent }) => settled(notes("readwrite").delete([scope, intent])),
    all: (scope) => settled(notes("readonly").getAll(IDBKeyRange.bound([scope], [scope, []]))),
  };
}

/** Notes for the lesser stores: in localStorage where there is one, else in memory. */
export function plainNotes(name: string, storage: Storage | undefined): Notes {
  const memory = new Map<string, string>();
  const id = (note: Pick<Note, "scope" | "intent">) => `${name}\0${note.scope}\0${note.intent}`;
  return {
    async put(note) {
      const text = JSON.stringify(note);
      if (storage) storage.setItem(id(note), text);
      else memory.set(id(note), text);
    },
    async remove(note) {
      storage?.removeItem(id(note));
      memory.delete(id(note));
    },
    async all(scope) {
      const ids = storage ? Object.keys(storage) : [...memory.keys()];
      return ids
        .filter((item) => item.startsWith(`${name}\0${scope}\0`))
        .map((item) => JSON.parse(storage?.getItem(item) ?? memory.get(item) ?? "null") as Note);
    },
  };
}
