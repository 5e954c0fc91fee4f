/** Checks the version of the stored records at a start, upgrades an older one and refuses a newer one. */
import { ConflictError, StartError } from "../model/errors.ts";
import { FILLING, META } from "../model/schema.ts";
import type { Storage } from "../ports/storage.ts";

/**
 * The schema that this version reads and writes. 2: wide events, which an older relay would take for events without
 * subscriptions; records of version 1 are read as they are.
 */
export const SCHEMA = 2;
const KEY = META.key({ what: "schema" });

/** Steps from each version to the next. Each may be repeated, and runs while no relay serves. */
type Upgrades = Readonly<Record<number, (storage: Storage) => Promise<void>>>;
const UPGRADES: Upgrades = { 1: () => Promise.resolve() };

type Readable = Pick<Storage, "getMany">;

/**
 * Reads the stored version; 0 when there is none.
 * @throws StartError 78 when it is not one of ours, or newer than this version knows
 */
export async function storedSchema(storage: Readable, known = SCHEMA): Promise<number> {
  const [text] = await storage.getMany([KEY]);
  if (text === undefined) return 0;
  const version = /^[1-9]\d{0,8}$/.test(text) ? Number(text) : undefined;
  if (version === undefined)
    throw new StartError(78, `this storage names a schema that cannot be read: ${text.slice(0, 40)}`);
  if (version > known) {
    throw new StartError(
      78,
      `this storage was written by a newer version (schema ${version}, this one knows ${known})`,
    );
  }
  return version;
}

/**
 * Upgrades the stored records to this version.
 * @throws StartError 78
 */
export async function ensureSchema(storage: Storage, upgrades = UPGRADES, known = SCHEMA): Promise<void> {
  const [filling] = await storage.getMany([FILLING]);
  if (filling !== undefined) {
    throw new StartError(78, "this storage is only half filled: run the restore or migration again to its end");
  }
  for (;;) {
    const version = await storedSchema(storage, known);
    if (version === known) return;
    // A storage without a number is of version 1.
    if (version > 0) {
      const upgrade = upgrades[version];
      if (upgrade === undefined) {
        throw new StartError(
          78,
          `this storage is of schema ${version}, which this version cannot read any more: use an older one first`,
        );
      }
      await upgrade(storage);
    }
    const next = String(version === 0 ? 1 : version + 1);
    try {
      await storage.commit([{ op: "put", key: KEY, value: next, if: version === 0 ? null : String(version) }]);
    } catch (error) {
      // Another node was first.
      if (!(error instanceof ConflictError)) throw error;
    }
  }
}
