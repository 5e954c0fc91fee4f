/** Checks the storage: opens it as a start would. While a relay has it open, it only says so. */
import { existsSync } from "node:fs";
import { StartError, StorageError } from "../../model/errors.ts";
import type { Storage } from "../../ports/storage.ts";
import type { Plan } from "../../ports/plan.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { openStorage } from "../support/offline.ts";
import { bad, good, reasonOf, warn, type DoctorFinding } from "./finding.ts";
import { seconds } from "./folder.ts";
import { checkMasterKey } from "./master-key.ts";

/** The largest difference, in ms, that is fine between this machine's clock and the storage's. */
const APART_MS = 1_000;
const FAR_APART_MS = 30_000;
const IN_USE = 75;

export async function checkStorage(plan: Plan, io: CliEnvironment): Promise<DoctorFinding[]> {
  const { name } = plan.storage;
  // Opening would create the folder.
  if (plan.storage.shared !== true && !existsSync(plan.dataDir))
    return [good("storage", `${name}: is made at the first start`)];
  const said: string[] = [];
  let storage: Storage;
  try {
    storage = await openStorage(plan, { ...io, say: (line) => void said.push(line.replace(/^relay: /, "")) });
  } catch (error) {
    if (error instanceof StartError && error.exitCode === IN_USE) {
      return [good("storage", `${name}: a relay has it open; ask it how it is with relay status`)];
    }
    return [unusable(plan, error)];
  }
  try {
    const found = said.map((line) => warn("storage", `${name}: ${line}`, "see docs/operate.md about storage"));
    const status = Object.entries(await storage.status())
      .filter(([key]) => !["name", "durability", "waiting", "leased"].includes(key))
      // Whoever has a shared storage open counts as a node of it, and this command has.
      .map(([key, value]) => `${key} ${String(key === "nodes" ? Number(value) - 1 : value)}`);
    found.push(
      storage.durability === "volatile"
        ? warn(
            "storage",
            `${name}: what is accepted is gone when it is restarted (volatile)`,
            DURABLE[name] ?? (DURABLE["other"] as string),
          )
        : good("storage", `${name}: ${[storage.durability, ...status].join(", ")}`),
    );
    found.push(await checkMasterKey(plan, storage));
    return [...found, ...(await checkTime(storage, io))];
  } catch (error) {
    return [unusable(plan, error)];
  } finally {
    await storage.dispose();
  }
}

function unusable({ storage: { name, shared } }: Plan, error: unknown): DoctorFinding {
  const outside = error instanceof StorageError ? error.fault !== "broken" : (error as StartError).exitCode === 69;
  const there = shared === true ? "it runs and can be reached from here" : "this user may read and write the folder";
  const todo = outside ? `see that ${there}` : "set it up as the message says";
  return bad("storage", `${name}: ${reasonOf(error)}`, todo, outside ? "outside" : "here");
}

const DURABLE: Readonly<Record<string, string>> = {
  redis: "set appendonly yes and appendfsync always, or wait for replicas with redis({ replicas: 1 })",
  other: "use sqlite(), filesystem() or redis() where events must not be lost",
};

async function checkTime(storage: Storage, { clock }: CliEnvironment): Promise<DoctorFinding[]> {
  if (storage.time === undefined) return [];
  const before = clock.now();
  const theirs = await storage.time();
  // The storage answers half-way between question and answer.
  const apart = theirs - (before + clock.now()) / 2;
  const found = `the storage's clock is ${seconds(apart)} of this machine`;
  if (Math.abs(apart) > FAR_APART_MS) return [bad("clock", found, "set both clocks right (ntp)")];
  return [Math.abs(apart) > APART_MS ? warn("clock", found, "set both clocks right (ntp)") : good("clock", found)];
}
