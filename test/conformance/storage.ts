/**
 * The law of the storage port. `describeStorage` proves a plug-in's storage, its queue too, against a harness; every
 * skip in it carries a written reason.
 */
import { afterEach, describe, it } from "vitest";
import type { Storage } from "../../core/ports/storage.ts";
import { bigLaws } from "./storage-big.ts";
import { commitLaws } from "./storage-commit.ts";
import { driverLaws } from "./storage-driver.ts";
import { modelLaws } from "./storage-model.ts";
import { rangeLaws } from "./storage-range.ts";
import { queueLaws } from "./queue.ts";

/** The laws that a storage may be excused from, each with its reason. */
export type Skippable =
  | "reopen"
  | "conditions"
  | "atomic"
  | "watch"
  | "unstorage"
  /** Thousands of lines are too slow for it here. */
  | "slow"
  /** A commit tells its own queue: no due line is ever unknown to it. */
  | "untold"
  /** Leases end only with the process. */
  | "lapse"
  /** Its clock cannot be set. */
  | "step"
  /** A second queue over the same data. */
  | "nodes";

export interface StorageHarness {
  /** A fresh, empty storage, on the harness's clock. */
  open(): Promise<Storage>;
  /** Closes it, as calmly as the process would, and opens the same data again. */
  reopen?(storage: Storage): Promise<Storage>;
  /** A second node on the same data, where that can be. */
  second?(storage: Storage): Promise<Storage>;
  /** The clock that the storages run on, and how the laws move it. */
  readonly clock: {
    now(): number;
    advance(ms: number): Promise<void>;
    /** Sets the wall clock alone: forwards, or back. */
    step?(ms: number): Promise<void>;
  };
  /** Makes every lease of the storage lapse, as if its holder had gone silent for a term. */
  lapse?(storage: Storage): Promise<void>;
  readonly skips?: Partial<Record<Skippable, string>>;
  /** Runs of the property test. @default 60 */
  readonly runs?: number;
  /** Due lines of the laws about backlogs: more than the queue's window. @default 25_000 */
  readonly backlog?: number;
  /** Subscriptions of the largest commit of all: fewer where rows are dear. @default 50 */
  readonly subscriptions?: number;
  /** How many publishers make large commits at once. @default 16 */
  readonly publishers?: number;
  /** Subscriptions of each of them: fewer where rows are dear. @default 3 */
  readonly publisherSubscriptions?: number;
}

/** The laws of size are done when they are done: a file a row takes its time, on a busy machine more. */
const BIG_MS = 300_000;

/** The tools that the laws are written with: a storage that is disposed of afterwards, and `law` instead of `it`. */
export interface Bench {
  readonly harness: StorageHarness;
  open(): Promise<Storage>;
  reopen(storage: Storage): Promise<Storage>;
  second(storage: Storage): Promise<Storage>;
  /** Registers a law; it is skipped, with the reason in its name, where the harness excuses one of `needs`. */
  law(name: string, prove: () => Promise<void>, ...needs: readonly Skippable[]): void;
}

export function describeStorage(name: string, harness: StorageHarness): void {
  describe(`${name} keeps the law of storage`, () => {
    const opened: Storage[] = [];
    const keep = async (opening: Promise<Storage>): Promise<Storage> => {
      const storage = await opening;
      opened.push(storage);
      return storage;
    };
    afterEach(async () => {
      for (const storage of opened.splice(0).toReversed()) await storage.dispose();
    }, BIG_MS);

    const bench: Bench = {
      harness,
      open: () => keep(harness.open()),
      reopen: (storage) => keep((harness.reopen as NonNullable<StorageHarness["reopen"]>)(storage)),
      second: (storage) => keep((harness.second as NonNullable<StorageHarness["second"]>)(storage)),
      law(law, prove, ...needs) {
        const reason = needs.map((need) => excuse(harness, need)).find((text) => text !== undefined);
        if (reason === undefined) it(law, prove);
        else it.skip(`${law} (skipped: ${reason})`, prove);
      },
    };

    describe("as an unstorage driver", () => driverLaws(bench));
    describe("commit", () => commitLaws(bench));
    describe("large commits", { timeout: BIG_MS }, () => bigLaws(bench));
    describe("range", () => rangeLaws(bench));
    describe("against a model", () => modelLaws(bench));
    describe("queue", () => queueLaws(bench));
  });
}

function excuse(harness: StorageHarness, need: Skippable): string | undefined {
  const given = harness.skips?.[need];
  if (given !== undefined) return given;
  if (need === "reopen" && harness.reopen === undefined) return "the harness cannot reopen it";
  if (need === "step" && harness.clock.step === undefined) return "the harness cannot set its clock";
  if (need === "nodes" && harness.second === undefined) return "one process at a time may use it";
  if (need === "lapse" && harness.lapse === undefined) return "a lease lasts until its process ends it or dies";
  return undefined;
}
