/** Opens the storage as a start would, and checks its durability, its master key and its clock. It changes nothing there. */
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { StartError, StorageError } from "../../core/model/errors.ts";
import { reasonOf } from "../../core/lib/reason.ts";
import type { Plan } from "../../core/ports/plan.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { heldKeys, judgeMasterKey, lineUp, makeKeys } from "../../core/runtime/offline.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { EX_TEMPFAIL, EX_UNAVAILABLE } from "../support/exit.ts";
import { openStorage } from "../support/offline.ts";
import { atEnd } from "../support/signals.ts";
import { bad, type Finding, good, warn } from "./finding.ts";
import { checkAddress } from "./machine.ts";

/** Clocks may differ by this, ms. */
const [APART_MS, FAR_APART_MS] = [1_000, 30_000];

/** What to do about a server that keeps nothing for sure. */
const DURABLE: Readonly<Record<string, string>> = {
  redis: "set appendonly yes and appendfsync always, or wait for replicas with redis({ replicas: 1 })",
  postgres: "set fsync, full_page_writes and synchronous_commit on",
};

/** Checks the storage, and the address to listen on, which a relay that has the storage open may hold. */
export async function checkStorage(plan: Plan, io: CliEnvironment): Promise<readonly Finding[]> {
  const { name, shared } = plan.storage;
  let findings: readonly Finding[];
  let inUse = false;
  try {
    // Opening would create the folder.
    const none = shared !== true && !existsSync(plan.dataDir);
    findings = none ? [good("storage", `${name}: is made at the first start`)] : await checkOpened(plan, io);
  } catch (error) {
    inUse = error instanceof StartError && error.exitCode === EX_TEMPFAIL;
    const open = good("storage", `${name}: a relay has it open; ask relay status`);
    findings = [inUse ? open : unusable(plan, error)];
  }
  return [...findings, await checkAddress(plan, io, inUse)];
}

async function checkOpened(plan: Plan, io: CliEnvironment): Promise<readonly Finding[]> {
  const { name } = plan.storage;
  const lines: string[] = [];
  const storage = await openStorage(plan, { ...io, say: (line) => void lines.push(line.replace(/^relay: /, "")) });
  await using _ = atEnd(() => storage.dispose());
  const found = `${name}: ${storage.durability}`;
  const todo = DURABLE[name] ?? "use sqlite(), filesystem(), redis() or postgres() where events must not be lost";
  return [
    ...lines.map((line) => warn("storage", `${name}: ${line}`, "see docs/storage.md, docs/nodes.md")),
    storage.durability === "volatile" ? warn("storage", found, todo) : good("storage", found),
    await checkMasterKey(plan, storage),
    ...(await checkTime(storage, io)),
  ];
}

function unusable({ storage: { name, shared } }: Plan, error: unknown): Finding {
  const code = error instanceof StartError ? error.exitCode : undefined;
  const outside = error instanceof StorageError ? error.fault !== "broken" : code === EX_UNAVAILABLE;
  const there = shared === true ? "it runs and can be reached from here" : "this user may read and write the folder";
  const todo = outside ? `see that ${there}` : "set it up as the message says";
  return bad("storage", `${name}: ${reasonOf(error)}`, todo, outside ? "outside" : "here");
}

const GO_ON = "run relay secrets rekey while the relay runs, and keep both until it is done";

/** Compares the master key with the storage, and says how far a rekey is. @throws StorageError */
async function checkMasterKey({ dataDir, keys }: Plan, storage: Pick<Storage, "getItem">): Promise<Finding> {
  const what = "master key";
  try {
    const { master, older } = lineUp(await heldKeys(dataDir, keys.master, textOf), keys.older);
    // Any signing key will do: fingerprints are of master keys.
    const signing = randomBytes(32).toString("base64");
    const made = makeKeys({ master: master ?? signing, signing, publishToken: "-", older });
    if (made.olderFingerprints.length < older.length)
      return bad(what, "an older one is no key", "give 32 bytes in base64 each (RELAY_MASTER_KEY_OLDER)");
    const { state, spent } = await judgeMasterKey(storage, made);
    const restore = "put keys/master back from its backup, or give RELAY_MASTER_KEY";
    if (master === undefined)
      return state === "unclaimed"
        ? good(what, "is made at the first start")
        : bad(what, "is not there, but what is stored needs it", restore);
    const more = older.length - spent;
    const further =
      (more > 0 ? `; ${more} more may open what is sealed, and a rekey to it may begin` : "") +
      (spent > 0 ? `; ${spent} that it replaced may be taken away when no backup needs it` : "");
    const others = ["", ", and so is the older one"][older.length] ?? `, and so are ${older.length} older ones`;
    switch (state) {
      case "unclaimed":
      case "present":
        return good(what, `is the one of this storage${further}`);
      case "rekeying":
        return warn(what, "a rekey has begun: what is stored still needs the older one, which is there too", GO_ON);
      case "replaced":
        return bad(what, "has been replaced by another in this storage", "give the one that replaced it");
      case "unlike":
        return bad(what, `is another than the one of this storage${others}`, "give the one that it was made with");
    }
  } catch (error) {
    if (error instanceof StorageError) throw error;
    const todo = error instanceof StartError ? "put it back from its backup" : "run it as the relay's user";
    return bad(what, reasonOf(error), todo);
  }
}

/** Reads as the relay does, but mends no modes. */
const textOf = (path: string): Promise<string | undefined> =>
  readFile(path, "utf8").then(
    (text) => text.trim(),
    (error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return undefined;
      throw error;
    },
  );

async function checkTime(storage: Storage, { clock }: CliEnvironment): Promise<Finding[]> {
  if (storage.time === undefined) return [];
  const before = clock.now();
  const theirs = await storage.time();
  // The storage answers half-way between question and answer.
  const apart = theirs - (before + clock.now()) / 2;
  const seconds = (Math.abs(apart) / 1_000).toFixed(1);
  const found = `the storage's clock is ${seconds} s ${apart > 0 ? "ahead" : "behind"} of this machine`;
  if (Math.abs(apart) <= APART_MS) return [good("clock", found)];
  return [(Math.abs(apart) > FAR_APART_MS ? bad : warn)("clock", found, "set both clocks right (ntp)")];
}
