/** Arrays as PostgreSQL's binary protocol has them: nothing is escaped here, and nothing is parsed there. */

const [TEXT, INT4, INT8] = [25, 23, 20];
/** Arrays are cut from slabs of so many bytes: memory of its own for each costs more than to fill it. */
const SLAB = 512 * 1024;
let slab = Buffer.alloc(0);

function room(size: number): Buffer {
  if (size > SLAB / 4) return Buffer.allocUnsafe(size);
  if (size > slab.length) slab = Buffer.allocUnsafeSlow(SLAB);
  const array = slab.subarray(0, size);
  slab = slab.subarray(size);
  return array;
}

function head(array: Buffer, nulls: number, type: number, length: number): void {
  // One dimension, from 1.
  for (const [i, one] of [1, nulls, type, length, 1].entries()) array.writeInt32BE(one, 4 * i);
}

export function texts(list: readonly (string | null)[]): Buffer | string {
  if (list.length === 0) return "{}";
  let size = 20;
  for (const one of list) size += 4 + (one === null ? 0 : Buffer.byteLength(one));
  const array = room(size);
  head(array, 1, TEXT, list.length);
  let at = 20;
  for (const one of list) {
    const bytes = one === null ? -1 : array.write(one, at + 4);
    array.writeInt32BE(bytes, at);
    at += 4 + Math.max(0, bytes);
  }
  return array;
}

function numbers(list: readonly number[], type: number, width: 4 | 8): Buffer | string {
  if (list.length === 0) return "{}";
  const array = room(20 + (4 + width) * list.length);
  head(array, 0, type, list.length);
  let at = 20;
  for (const one of list) {
    at = array.writeInt32BE(width, at);
    if (width === 8) at = array.writeInt32BE(Math.floor(Math.trunc(one) / 2 ** 32), at);
    at = array.writeInt32BE(one | 0, at);
  }
  return array;
}

export const ints = (list: readonly number[]): Buffer | string => numbers(list, INT4, 4);
/** Whole numbers beyond 32 bits. */
export const longs = (list: readonly number[]): Buffer | string => numbers(list, INT8, 8);
