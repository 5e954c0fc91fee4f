/** Checks the master key against the storage, and says how far a rekey is. It changes nothing. */
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { StorageError } from "../../model/errors.ts";
import type { Storage } from "../../ports/storage.ts";
import { makeKeys } from "../../runtime/keys/keyring.ts";
import { heldKeys, lineUp } from "../../runtime/keys/master-keys.ts";
import type { Plan } from "../../ports/plan.ts";
import { judgeMasterKey } from "../../runtime/keys/rekey.ts";
import { bad, good, reasonOf, warn, type DoctorFinding } from "./finding.ts";

const WHAT = "master key";

export async function checkMasterKey(
  { dataDir, keys }: Plan,
  storage: Pick<Storage, "getItem">,
): Promise<DoctorFinding> {
  try {
    const { master, older } = lineUp(await heldKeys(dataDir, keys.master, textOf), keys.older);
    // Any signing key will do: fingerprints are of master keys.
    const signing = randomBytes(32).toString("base64");
    if (master === undefined) {
      const none = makeKeys({ master: signing, signing, publishToken: "-" });
      if ((await judgeMasterKey(storage, none)).state === "unclaimed") return good(WHAT, "is made at the first start");
      const todo = "put keys/master back from its backup, or give RELAY_MASTER_KEY";
      return bad(WHAT, "is not there, but what is stored needs it", todo);
    }
    const made = makeKeys({ master, signing, publishToken: "-", older });
    if (made.olderFingerprints.length < older.length)
      return bad(WHAT, "an older one is no key", "give 32 bytes in base64 each (RELAY_MASTER_KEY_OLDER)");
    const { state, spent } = await judgeMasterKey(storage, made);
    return told(state, older.length, spent);
  } catch (error) {
    if (error instanceof StorageError) throw error;
    return bad(WHAT, reasonOf(error), "put it back from its backup");
  }
}

/** @param older number of further keys; `spent` of them are needed by nothing that is stored */
function told(state: Awaited<ReturnType<typeof judgeMasterKey>>["state"], older: number, spent: number): DoctorFinding {
  switch (state) {
    case "unclaimed":
    case "present": {
      const notes = [
        ...(older > spent ? [`${older - spent} more may open what is sealed, and a rekey to it may begin`] : []),
        ...(spent > 0 ? [`${spent} that it replaced may be taken away when no backup needs it`] : []),
      ];
      return good(WHAT, ["is the one of this storage", ...notes].join("; "));
    }
    case "rekeying":
      return warn(
        WHAT,
        "a rekey has begun: what is stored still needs the older one, which is there too",
        "run relay secrets rekey while the relay runs, and keep both until it is done",
      );
    case "replaced":
      return bad(WHAT, "has been replaced by another in this storage", "give the one that replaced it");
    case "unlike": {
      const others = older === 0 ? "" : older === 1 ? ", and so is the older one" : `, and so are ${older} older ones`;
      return bad(WHAT, `is another than the one of this storage${others}`, "give the one that it was made with");
    }
  }
}

async function textOf(path: string): Promise<string | undefined> {
  try {
    return (await readFile(path, "utf8")).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
