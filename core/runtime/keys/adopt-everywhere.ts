/** Makes every node of a process hold the next master key before one of them seals with it: they share the key files. */
import { StorageError } from "../../model/errors.ts";
import type { Storage } from "../../ports/storage.ts";
import type { RelayKeys } from "./keyring.ts";
import { heldKeys, lineUp } from "./master-keys.ts";

const MESSAGE = "adopt-master-key";
const WAIT = { mostMs: 5_000, silentMs: 5_000 };

/**
 * Adopts the newest key of the files, and does so again whenever another node asks from now on.
 * @returns asks the other nodes, and resolves when all of them hold the key. It throws StorageError `unavailable` when one
 * does not: then nothing may be sealed with the key yet
 * @throws StartError 78 when a key file cannot be read
 */
export async function adoptEverywhere(
  keys: Pick<RelayKeys, "adopt">,
  storage: Pick<Storage, "nodes" | "status">,
  dataDir: string,
): Promise<() => Promise<void>> {
  async function adopt(): Promise<void> {
    const { master } = lineUp(await heldKeys(dataDir, undefined));
    if (master !== undefined) keys.adopt(master);
  }

  const { nodes } = storage;
  nodes?.answer(async (message) => {
    if (message === MESSAGE) await adopt();
  });
  // A rekey may have begun since this node read its keys. One that begins after this answer asks this node, too.
  await storage.status();
  await adopt();
  return async () => {
    if ((await nodes?.ask(MESSAGE, WAIT)) === false)
      throw new StorageError("unavailable", "a thread of the relay does not hold the next master key yet: try again");
  };
}
