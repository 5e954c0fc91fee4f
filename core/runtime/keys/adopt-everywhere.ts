/** Makes every node of a process hold the next master key before one of them seals with it: they share the key files. */
import { join } from "node:path";
import { StorageError } from "../../model/errors.ts";
import type { Nodes } from "../../ports/storage.ts";
import { readKeyFile } from "./key-file.ts";
import type { RelayKeys } from "./keyring.ts";
import { keyFolder, NEXT_MASTER } from "./master-keys.ts";

const MESSAGE = "adopt-master-key";
const WAIT = { mostMs: 5_000, silentMs: 5_000 };

/**
 * Acts on what other nodes ask from now on. Returns what asks them; it resolves when all of them hold the key.
 * @throws StorageError `unavailable` when one does not answer: then nothing may be sealed with the key yet
 */
export function adoptEverywhere(
  keys: Pick<RelayKeys, "adopt">,
  nodes: Nodes | undefined,
  dataDir: string,
): () => Promise<void> {
  nodes?.answer(async (message) => {
    if (message !== MESSAGE) return;
    const next = await readKeyFile(join(keyFolder(dataDir), NEXT_MASTER));
    if (next !== undefined) keys.adopt(next);
  });
  return async () => {
    if ((await nodes?.ask(MESSAGE, WAIT)) === false)
      throw new StorageError("unavailable", "a thread of the relay does not hold the next master key yet: try again");
  };
}
