/** How fast the machine itself is: what times are to be read beside, since hosts differ by several times. */
import { open } from "node:fs/promises";
import { join } from "node:path";
import { round } from "./bench-run.ts";
import { nowMs } from "./event.ts";
import { percentile } from "./process.ts";
import { rawLoop, type World } from "./rounds.ts";

/** Cost of a request in the raw loop, µs CPU, at the speed that limits in ms are meant for. */
const USUAL_RAW_US = 35;
const SYNCS = 500;
const SYNC_BYTES = 4_096;

export interface HostSpeed {
  /** CPU of a request of the raw loop, µs. */
  readonly rawMicroseconds: number;
  /** How many times as long as usual this machine takes. */
  readonly slower: number;
}

/** Runs the raw loop for so many seconds. */
export async function hostSpeed(world: World, seconds: number): Promise<HostSpeed> {
  const { cpu } = await rawLoop(world, seconds);
  return { rawMicroseconds: round(cpu, 1), slower: round(cpu / USUAL_RAW_US, 1) };
}

export interface DiskSpeed {
  readonly p50: number;
  readonly p99: number;
}

/** How long the disk takes to keep an append, ms: the least that a 202 waits for. The folder must exist. */
export async function diskSpeed(folder: string): Promise<DiskSpeed> {
  const piece = Buffer.alloc(SYNC_BYTES, 1);
  const times: number[] = [];
  await using file = await open(join(folder, "syncs"), "a");
  for (let i = 0; i < SYNCS; i++) {
    const from = nowMs();
    await file.appendFile(piece);
    await file.datasync();
    times.push(nowMs() - from);
  }
  return { p50: round(percentile(times, 50), 2), p99: round(percentile(times, 99), 2) };
}

export const hostText = ({ rawMicroseconds, slower }: HostSpeed): string =>
  `the raw loop takes ${rawMicroseconds} µs CPU a request, ${slower} times the usual ${USUAL_RAW_US}`;
