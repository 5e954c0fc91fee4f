/** Runs the simulation over many seeds, or over the one that SEED names, with its story. */
import { expect } from "vitest";
import { openSimFolder } from "./folder-disk.ts";
import { openSimRedis } from "./redis-server.ts";
import { simulate, type SimKind } from "./run-seed.ts";

const only = process.env["SEED"];

/** @returns how many requests and accepted events there were: a simulation in which nothing happens proves nothing */
export async function seeds(
  kind: SimKind,
  count: number,
): Promise<{ readonly requests: number; readonly accepted: number; readonly turns: number }> {
  await using redis = kind === "redis" ? await openSimRedis() : undefined;
  await using folder = kind === "filesystem" ? await openSimFolder() : undefined;
  const real = { redis, folder };
  if (only !== undefined) {
    const { story, ...rest } = await simulate(Number(only), kind, true, real);
    process.stderr.write(`${story.join("\n")}\n`);
    return { requests: rest.requests + count, accepted: rest.accepted + count, turns: rest.turns + count };
  }
  let requests = 0;
  let accepted = 0;
  let turns = 0;
  for (let seed = 1; seed <= count; seed++) {
    const ran = await simulate(seed, kind, false, real);
    requests += ran.requests;
    accepted += ran.accepted;
    turns += ran.turns;
  }
  return { requests, accepted, turns };
}

/** The same seed makes the same world, to its last request. */
export async function replays(kind: SimKind, seed: number): Promise<void> {
  await using redis = kind === "redis" ? await openSimRedis() : undefined;
  await using folder = kind === "filesystem" ? await openSimFolder() : undefined;
  const real = { redis, folder };
  const first = await simulate(seed, kind, true, real);
  const again = await simulate(seed, kind, true, real);
  expect(again.digest).toBe(first.digest);
  expect(again.story).toEqual(first.story);
}
