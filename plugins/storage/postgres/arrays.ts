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
  array.writeInt32BE(1, 0);
  array.writeInt32BE(nulls, 4);
  array.writeInt32BE(type, 8);
  array.writeInt32BE(length, 12);
  array.writeInt32BE(1, 16);
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

export function ints(list: readonly number[]): Buffer | string {
  if (list.length === 0) return "{}";
  const array = room(20 + 8 * list.length);
  head(array, 0, INT4, list.length);
  let at = 20;
  for (const one of list) {
    array.writeInt32BE(4, at);
    array.writeInt32BE(one, at + 4);
    at += 8;
  }
  return array;
}

/** Whole numbers beyond 32 bits. */
export function longs(list: readonly number[]): Buffer | string {
  if (list.length === 0) return "{}";
  const array = room(20 + 12 * list.length);
  head(array, 0, INT8, list.length);
  let at = 20;
  for (const one of list) {
    array.writeInt32BE(8, at);
    const whole = Math.trunc(one);
    array.writeInt32BE(Math.floor(whole / 2 ** 32), at + 4);
    array.writeInt32BE(whole | 0, at + 8);
    at += 12;
  }
  return array;
}
