/** Finds the master keys of a relay and says which of them seals. */
import { join } from "node:path";
import { StartError } from "../../model/errors.ts";
import { readKeyFile } from "./key-file.ts";

/** Files of the key folder: the master key, the next one, and the one before it. */
export const [MASTER, NEXT_MASTER, OLD_MASTER] = ["master", "master.next", "master.old"] as const;
export const keyFolder = (dataDir: string): string => join(dataDir, "keys");

/** The texts of the master keys: given by the config or the environment, or read from the key folder. */
interface HeldKeys {
  readonly present: string | undefined;
  readonly next: string | undefined;
  readonly old: string | undefined;
}

/**
 * Reads them and makes none. Where the present key is given, the folder is not read.
 * @param read the text in a file, trimmed; `undefined` when there is no such file
 * @throws StartError 78 naming the file that holds no key
 */
export async function heldKeys(
  dataDir: string,
  given: string | undefined,
  read: (path: string) => Promise<string | undefined> = readKeyFile,
): Promise<HeldKeys> {
  if (given !== undefined) return { present: given.trim(), next: undefined, old: undefined };
  const filed = async (name: string): Promise<string | undefined> => {
    const path = join(keyFolder(dataDir), name);
    const text = await read(path);
    if (text !== undefined && keyBytes(text) === undefined)
      throw new StartError(78, `${path} is damaged: put it back from a backup`);
    return text;
  };
  return { next: await filed(NEXT_MASTER), present: await filed(MASTER), old: await filed(OLD_MASTER) };
}

/**
 * Says which key seals, `undefined` when there is none yet, and which older ones only open what they sealed.
 * @param given further keys that only open
 */
export function lineUp({ present, next, old }: HeldKeys, given: readonly string[] = []) {
  const master = next ?? present;
  const filed = [present, old].filter((text) => text !== undefined && text !== master) as readonly string[];
  return { master, older: [...given, ...filed] };
}

/** The 32 bytes that a text stands for, in base64 of either alphabet; `undefined` when the text is no such key. */
export function keyBytes(text: string): Buffer | undefined {
  const trimmed = text.trim();
  if (!/^[A-Za-z0-9+/_-]{43}=?$/.test(trimmed)) return undefined;
  const raw = Buffer.from(trimmed, "base64");
  return raw.length === 32 ? raw : undefined;
}
