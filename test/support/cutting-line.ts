/** A TCP line to a server, which breaks once so many bytes have gone through in one direction. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export type Direction = "up" | "down";

export interface CuttingLine extends AsyncDisposable {
  readonly port: number;
  /** Counts from now on, and resets every connection once that many bytes went up to the server or down from it. */
  cutAfter(direction: Direction, bytes: number): void;
  /** Returns how many bytes went through since the count began. */
  counted(): Readonly<Record<Direction, number>>;
  /** Returns whether it has broken since the count began. */
  broken(): boolean;
}

export async function cuttingLine(target: number): Promise<CuttingLine> {
  const pairs = new Set<readonly [Socket, Socket]>();
  let counts = { up: 0, down: 0 };
  let armed: { readonly direction: Direction; readonly bytes: number } | undefined;
  let broken = false;

  function pass(direction: Direction, chunk: Buffer, to: Socket): void {
    const left = armed?.direction === direction ? armed.bytes - counts[direction] : Number.POSITIVE_INFINITY;
    counts[direction] += chunk.length;
    if (chunk.length < left) return void to.write(chunk);
    armed = undefined;
    broken = true;
    // What went before the cut arrives.
    to.write(chunk.subarray(0, left), () => {
      for (const [near, far] of pairs) {
        near.resetAndDestroy();
        far.destroy();
      }
    });
  }

  const listener = createServer((near) => {
    const far = connect(target, "127.0.0.1");
    const pair = [near, far] as const;
    pairs.add(pair);
    const end = (): void => {
      pairs.delete(pair);
      near.destroy();
      far.destroy();
    };
    for (const socket of pair) socket.on("error", end).on("close", end);
    near.on("data", (chunk: Buffer) => pass("up", chunk, far));
    far.on("data", (chunk: Buffer) => pass("down", chunk, near));
  }).listen(0, "127.0.0.1");
  await once(listener, "listening");
  return {
    port: (listener.address() as AddressInfo).port,
    cutAfter(direction, bytes) {
      [counts, armed, broken] = [{ up: 0, down: 0 }, { direction, bytes }, false];
    },
    counted: () => counts,
    broken: () => broken,
    async [Symbol.asyncDispose]() {
      for (const pair of pairs) for (const socket of pair) socket.destroy();
      listener.close();
      await once(listener, "close");
    },
  };
}
