/** Starts relays side by side, each in a world of its own, and measures them in turns. */
import { mkdir } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { say } from "./bench-run.ts";
import type { Form } from "./event.ts";
import type { RelayOptions } from "./relay.ts";
import { pass } from "./rounds.ts";
import { openWorld, type OpenWorld, WARM_SECONDS } from "./world.ts";

export interface Subject {
  readonly name: string;
  /** Of this folder's parent, started in place of the command. */
  readonly script?: string;
  /** Another checkout. */
  readonly home?: string;
}

export const BARE_WIRE: Subject = { name: "bare, nothing stored", script: "floor/wire.ts" };
export const BARE_STORED: Subject = { name: "bare, stored", script: "floor/stored.ts" };
export const RELAY: Subject = { name: "the relay" };

/** The relay of another checkout, named as its folder; none without one. */
export const otherRelay = (home: string | undefined): readonly Subject[] =>
  home === undefined ? [] : [{ name: basename(resolve(home)), home: resolve(home) }];

export interface Lane extends Subject {
  readonly world: OpenWorld;
  /** Events that warmed it up. */
  readonly warmed: number;
}

interface LaneOptions extends Pick<RelayOptions, "storage" | "profile"> {
  readonly form: Form;
  readonly warm?: number;
}

/** Starts all of them, and publishes to each until it is warm. */
export async function openLanes(
  folder: string,
  subjects: readonly Subject[],
  { form, warm = WARM_SECONDS, storage, profile }: LaneOptions,
): Promise<Lane[]> {
  const lanes: Lane[] = [];
  for (const [i, subject] of subjects.entries()) {
    say(`${subject.name}: warming up …`);
    const own = join(folder, String(i));
    await mkdir(own);
    const world = await openWorld({
      folder: own,
      storage,
      home: subject.home,
      ...(subject.script !== undefined && { script: join(import.meta.dirname, "..", subject.script) }),
      ...(subject === RELAY && { profile }),
    });
    const { all: warmed } = await pass(world, world.running, warm, { form });
    lanes.push({ ...subject, world, warmed });
  }
  return lanes;
}

/**
 * Measures each once a round. Who begins changes, so that a machine that grows slower favours nobody.
 * @returns for each of them its rounds
 */
export async function inTurns<Of, Result>(
  all: readonly Of[],
  rounds: number,
  measure: (one: Of) => Promise<Result>,
): Promise<readonly (readonly Result[])[]> {
  const results = all.map((): Result[] => []);
  const order = [...all.entries()];
  for (let i = 0; i < rounds; i++) {
    for (const [at, one] of i % 2 === 0 ? order : order.toReversed()) results[at]?.push(await measure(one));
  }
  return results;
}
