/**
 * Unpacks a file of LZMA, in the format that `xz --format=lzma` writes, if it was packed with lc = 3, lp = 0 and pb = 0. It is an
 * eighth smaller than what a server makes of the module with gzip, and as small where a server compresses nothing.
 *
 * The bits are those of a range coder: each was written at the odds that what came before gave it. The odds stand in one
 * table, and these say what they are for.
 */
const STATES = 12;
const IS_MATCH = 0;
const IS_REPEAT = STATES;
const IS_OLDER = 2 * STATES;
const IS_THIRD = 3 * STATES;
const IS_FOURTH = 4 * STATES;
const IS_LONG = 5 * STATES;
const SLOTS = 6 * STATES;
const NEAR = SLOTS + 4 * 64;
const ALIGN = NEAR + 128;
const LENGTHS = ALIGN + 16;
const REPEATED_LENGTHS = LENGTHS + 512;
const LITERALS = REPEATED_LENGTHS + 512;

export function unpacked(packed: Uint8Array): Uint8Array<ArrayBuffer> {
  const view = new DataView(packed.buffer, packed.byteOffset);
  const bytes = new Uint8Array(view.getUint32(5, true));
  const odds = new Uint16Array(LITERALS + 8 * 768).fill(1024);
  let [at, range, code] = [18, 2 ** 32 - 1, view.getUint32(14)];

  const narrow = (isOne: boolean | number, bound: number): number => {
    if (isOne) {
      code -= bound;
      range -= bound;
    } else range = bound;
    if (range < 2 ** 24) {
      range *= 256;
      code = code * 256 + packed[at++]!;
    }
    return isOne ? 1 : 0;
  };
  const bit = (of: number): number => {
    const chance = odds[of]!;
    const bound = (range >>> 11) * chance;
    const isOne = code >= bound;
    odds[of] = isOne ? chance - (chance >> 5) : chance + ((2048 - chance) >> 5);
    return narrow(isOne, bound);
  };
  /** So many bits, the highest first, each at the odds that those before it lead to; with a one before them. */
  const tree = (of: number, bits: number): number => {
    let found = 1;
    while (bits--) found = 2 * found + bit(of + found);
    return found;
  };
  /** The same, the lowest first. */
  const reverse = (of: number, bits: number): number => {
    let [found, place] = [0, 1];
    for (let i = 0; i < bits; i++) {
      const next = bit(of + place);
      place = 2 * place + next;
      found += next << i;
    }
    return found;
  };
  const length = (of: number): number =>
    bit(of) ? (bit(of + 1) ? tree(of + 256, 8) - 256 + 18 : tree(of + 16, 3) + 2) : tree(of + 8, 3) - 6;

  let state = 0;
  let distances = [1, 1, 1, 1];
  for (let to = 0; to < bytes.length; ) {
    const [distance] = distances as [number];
    if (!bit(IS_MATCH + state)) {
      const of = LITERALS + 768 * (to && bytes[to - 1]! >> 5);
      let found = 1;
      if (state > 6) {
        // After a match the byte is not the one that would have followed: its odds are apart, as long as it is like it.
        let like = bytes[to - distance]!;
        do {
          like *= 2;
          const next = bit(of + 256 + (like & 256) + found);
          found = 2 * found + next;
          if (next !== ((like >> 8) & 1)) break;
        } while (found < 256);
      }
      while (found < 256) found = 2 * found + bit(of + found);
      bytes[to++] = found;
      state = state < 4 ? 0 : state < 10 ? state - 3 : state - 6;
      continue;
    }
    let many: number;
    if (bit(IS_REPEAT + state)) {
      const older = bit(IS_OLDER + state) && 1 + (bit(IS_THIRD + state) && 1 + bit(IS_FOURTH + state));
      const again = !older && !bit(IS_LONG + state);
      distances.unshift(...distances.splice(older, 1));
      many = again ? 1 : length(REPEATED_LENGTHS);
      state = state < 7 ? (again ? 9 : 8) : 11;
    } else {
      many = length(LENGTHS);
      state = state < 7 ? 7 : 10;
      const slot = tree(SLOTS + 64 * Math.min(many - 2, 3), 6) - 64;
      let back = slot;
      if (slot > 3) {
        const bits = (slot >> 1) - 1;
        back = (2 | (slot & 1)) << bits;
        if (slot < 14) back += reverse(NEAR + back - slot, bits);
        else {
          for (let i = bits - 1; i > 3; i--) {
            const half = Math.floor(range / 2);
            range = half * 2;
            back += narrow(code >= half, half) << i;
          }
          back += reverse(ALIGN, 4);
        }
      }
      distances = [back + 1, ...distances.slice(0, 3)];
    }
    for (const [back] = distances as [number]; many--; to++) bytes[to] = bytes[to - back]!;
  }
  return bytes;
}
