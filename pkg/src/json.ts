/** JSON with the members of every object sorted by name: a reload freezes the same bytes. */
export function frozen(value: unknown): Uint8Array {
  const text = JSON.stringify(value, (_, item: unknown) =>
    item && typeof item === "object" && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)))
      : item,
  );
  if (text === undefined) throw new TypeError("the body cannot be written as JSON");
  return new TextEncoder().encode(text);
}
