/** Checks the version of the stored records at a start, and refuses a newer one. */
import { StartError, untilCommitted } from "../model/errors.ts";
import { FILLING, META } from "../model/schema.ts";
import type { Storage } from "../ports/storage.ts";

/**
 * The schema that this version reads and writes. 2: wide events, which an older relay would take for events without
 * subscriptions; records of version 1 are read as they are.
 */
export const SCHEMA = 2;
const KEY = META.key({ what: "schema" });

/**
 * Reads the stored version; 0 when there is none.
 * @throws StartError 78 when it is not one of ours, or newer than this version knows
 */
export async function storedSchema(storage: Pick<Storage, "getMany">): Promise<number> {
  const [text] = await storage.getMany([KEY]);
  if (text === undefined) return 0;
  if (!/^[1-9]\d{0,8}$/.test(text))
    throw new StartError(78, `this storage names a schema that cannot be read: ${text.slice(0, 40)}`);
  if (Number(text) > SCHEMA)
    throw new StartError(78, `this storage was written by a newer version (schema ${text}, this one knows ${SCHEMA})`);
  return Number(text);
}

/** Notes that the stored records are of this version from now on. @throws StartError 78 */
export async function ensureSchema(storage: Storage): Promise<void> {
  const [filling] = await storage.getMany([FILLING]);
  if (filling !== undefined)
    throw new StartError(78, "this storage is only half filled: run the restore or migration again to its end");
  // Another node may be first.
  await untilCommitted(async () => {
    const version = await storedSchema(storage);
    if (version === SCHEMA) return;
    const was = version === 0 ? null : String(version);
    await storage.commit([{ op: "put", key: KEY, value: String(SCHEMA), if: was }]);
  });
}
