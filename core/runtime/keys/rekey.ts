/** Changes the master key while the relay serves: seals every secret with the new key, then retires the old one. */
import { join } from "node:path";
import { createAuditTrail } from "../../records/audit-trail.ts";
import type { Actor } from "../../model/audit.ts";
import { createReseal } from "../../subscriptions/reseal.ts";
import { StartError, untilCommitted } from "../../model/errors.ts";
import { META } from "../../model/schema.ts";
import { unlessAborted } from "../../lib/within.ts";
import type { Auth } from "../../ports/auth.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log } from "../../ports/plugin.ts";
import type { Storage } from "../../ports/storage.ts";
import { promoteKeyFile, readKeyFile } from "./key-file.ts";
import type { RelayKeys } from "./keyring.ts";
import { keyFolder, MASTER, NEXT_MASTER, OLD_MASTER } from "./master-keys.ts";

/** State of a rekey. `blocked`: a secret can be opened by none of the keys, so the keys are not changed. */
interface Rekeyed {
  readonly state: "running" | "done" | "blocked";
  /** Subscriptions sealed with the new key so far. */
  readonly sealed: number;
  /** Ids of subscriptions that no key opens, at most 20. */
  readonly unreadable: readonly string[];
}

const FINGERPRINT = META.key({ what: "master-key" });
const RETIRED = META.key({ what: "master-keys-retired" });
const SHOWN = 20;

interface RekeyDeps {
  readonly keys: RelayKeys;
  readonly storage: Pick<Storage, "getItem" | "getMany" | "commit" | "range">;
  readonly auth: Pick<Auth, "reseal">;
  readonly clock: Clock;
  readonly log: Log;
  /** Where the master key lies in a file; `undefined` where it is given. */
  readonly dataDir: string | undefined;
  /** Longest time that a change which was sealed with the old key takes to be stored, ms. @default 2_000 */
  readonly settleMs?: number;
  /** @default 8_000 */
  readonly waitMs?: number;
}

/** A caller asks again at once: one that comes so much later is another one, and wants a run of its own. */
const UNHEARD_MS = 60_000;

export class Rekey {
  readonly #deps: RekeyDeps;
  readonly #stopping = new AbortController();
  #running: Promise<Rekeyed> | undefined;
  #sealed = 0;
  /** Result of a run that ended while no caller waited, and until when it answers the next one, monotonic ms. */
  #unheard: { readonly came: Rekeyed; readonly until: number } | undefined;
  #waiting = 0;

  constructor(deps: RekeyDeps) {
    this.#deps = deps;
  }

  /** Starts a rekey, or joins the running one; resolves at its end, or after `waitMs` with its progress. */
  async run(actor: Actor): Promise<Rekeyed> {
    const { clock, waitMs = 8_000 } = this.#deps;
    const heard = await this.#heardNow();
    if (heard !== undefined) return heard;
    this.#running ??= this.#work(actor)
      .then((came) => {
        if (this.#waiting === 0) this.#unheard = { came, until: clock.monotonic() + UNHEARD_MS };
        return came;
      })
      .finally(() => (this.#running = undefined));
    this.#waiting++;
    const over = new AbortController();
    const wait = clock.sleep(clock.now() + waitMs, AbortSignal.any([over.signal, this.#stopping.signal]));
    const soon = wait.catch(() => undefined).then((): Rekeyed => this.#came("running"));
    try {
      return await Promise.race([this.#running, soon]);
    } finally {
      this.#waiting--;
      over.abort();
    }
  }

  /** Stops the running rekey. What is sealed stays sealed, and the next run continues. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error("stopping"));
    await this.#running?.catch(() => undefined);
  }

  #came(state: Rekeyed["state"], unreadable: readonly string[] = []): Rekeyed {
    return { state, sealed: this.#sealed, unreadable };
  }

  async #nextKey(): Promise<string | undefined> {
    const { dataDir } = this.#deps;
    return dataDir === undefined ? undefined : await readKeyFile(join(keyFolder(dataDir), NEXT_MASTER));
  }

  /** Returns the end of a run that its caller, who asks again and again, has not heard yet. */
  async #heardNow(): Promise<Rekeyed | undefined> {
    const before = this.#unheard;
    this.#unheard = undefined;
    if (before === undefined || this.#deps.clock.monotonic() > before.until) return undefined;
    // Where there is a next key again, another rekey is wanted.
    return before.came.state === "done" && (await this.#nextKey()) !== undefined ? undefined : before.came;
  }

  async #work(actor: Actor): Promise<Rekeyed> {
    const { keys, storage, auth, clock, settleMs = 2_000 } = this.#deps;
    const { signal } = this.#stopping;
    const reseal = createReseal(storage, keys);
    this.#sealed = 0;
    const next = await this.#nextKey();
    if (next !== undefined) keys.adopt(next);
    // A secret that was sealed before the key changed may be stored after this pass has read its place.
    for (let clean = 0; clean < 2; clean++) {
      if (clean > 0) await clock.sleep(clock.now() + settleMs, signal);
      const { sealed, unreadable } = await reseal(signal);
      // A plug-in that still seals after a stop does so in vain: the next run goes on.
      await unlessAborted(signal, Promise.resolve(auth.reseal?.()));
      signal.throwIfAborted();
      this.#sealed += sealed;
      if (unreadable.length > 0) return this.#came("blocked", unreadable.slice(0, SHOWN));
      if (sealed > 0) clean = 0;
    }
    await this.#change(actor);
    // A next key that lies there again is of another rekey, whose caller has joined this run at its very end.
    return (await this.#nextKey()) === undefined ? this.#came("done") : this.#work(actor);
  }

  /** Changes the fingerprint, as nothing is left that the old key sealed; then the key files. */
  async #change(actor: Actor): Promise<void> {
    const { keys, storage, clock, log, dataDir } = this.#deps;
    const stored = await storage.getItem(FINGERPRINT);
    if (stored !== undefined && stored !== keys.masterFingerprint) {
      const retired = (await storage.getItem(RETIRED))?.split(" ") ?? [];
      const all = new Set([...retired, stored]);
      all.delete(keys.masterFingerprint);
      const facts = {
        action: "secrets.rekeyed",
        target: "master key",
        detail: `${this.#sealed} subscriptions`,
      } as const;
      await storage.commit([
        { op: "put", key: FINGERPRINT, value: keys.masterFingerprint, if: stored },
        { op: "put", key: RETIRED, value: [...all].join(" ") },
        ...createAuditTrail({ storage, clock, log }).lines({ ...facts, actor, keys: "*" }),
      ]);
      log.info("everything is sealed by the new master key", { sub: actor.sub, count: this.#sealed });
    }
    await settleKeyFiles(keys, storage, dataDir);
  }
}

/** Replaces the old key's file by the new one's once the fingerprint has changed. Does nothing before, or when it is done. */
export async function settleKeyFiles(
  keys: Pick<RelayKeys, "masterFingerprint">,
  storage: Pick<Storage, "getItem">,
  dataDir: string | undefined,
): Promise<void> {
  if (dataDir === undefined || (await storage.getItem(FINGERPRINT)) !== keys.masterFingerprint) return;
  const at = (name: string): string => join(keyFolder(dataDir), name);
  if ((await readKeyFile(at(NEXT_MASTER))) !== undefined)
    await promoteKeyFile(at(MASTER), at(NEXT_MASTER), at(OLD_MASTER));
}

/** Tells whether a relay's master keys fit the storage. `rekeying`: the present key has not sealed all of it yet. */
type MasterKeyState = "unclaimed" | "present" | "rekeying" | "replaced" | "unlike";

/**
 * Compares the keys with the stored fingerprint; changes nothing.
 * @returns with the state how many of the older keys this storage needs no more
 */
export async function judgeMasterKey(
  storage: Pick<Storage, "getItem">,
  keys: Pick<RelayKeys, "masterFingerprint" | "olderFingerprints">,
): Promise<{ readonly state: MasterKeyState; readonly spent: number }> {
  const retired = (await storage.getItem(RETIRED))?.split(" ") ?? [];
  const stored = await storage.getItem(FINGERPRINT);
  const spent = keys.olderFingerprints.filter((one) => retired.includes(one)).length;
  if (retired.includes(keys.masterFingerprint)) return { state: "replaced", spent };
  if (stored === undefined) return { state: "unclaimed", spent };
  if (stored === keys.masterFingerprint) return { state: "present", spent };
  return { state: keys.olderFingerprints.includes(stored) ? "rekeying" : "unlike", spent };
}

/** Resolves to whether the storage belongs to a master key. @throws StorageError */
export const hasMasterKey = async (storage: Pick<Storage, "getItem">): Promise<boolean> =>
  (await storage.getItem(FINGERPRINT)) !== undefined;

/**
 * Claims the storage for the master key, or refuses a key that cannot open what is sealed in it. During a rekey a node
 * holds both the old and the new key.
 * @throws StartError 78
 */
export const ownMasterKey = (
  storage: Pick<Storage, "getItem" | "commit">,
  keys: Pick<RelayKeys, "masterFingerprint" | "olderFingerprints">,
  log: Pick<Log, "warn">,
): Promise<void> =>
  // Another node may be first.
  untilCommitted(async () => {
    switch ((await judgeMasterKey(storage, keys)).state) {
      case "present":
        return;
      case "replaced":
        throw new StartError(78, "this master key has been replaced: give the one that replaced it");
      case "unlike":
        throw new StartError(
          78,
          "this storage belongs to another master key: give the one it was made with (RELAY_MASTER_KEY or keys/master)",
        );
      case "rekeying":
        return log.warn("not everything is sealed by the present master key yet: run relay secrets rekey");
      case "unclaimed":
        await storage.commit([{ op: "put", key: FINGERPRINT, value: keys.masterFingerprint, if: null }]);
    }
  });
