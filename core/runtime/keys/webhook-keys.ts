/** Loads the Ed25519 keys that sign deliveries: given by the environment, or files of the key folder. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { StartError } from "../../model/errors.ts";
import { ed25519Key, type Ed25519Key } from "../../signing/ed25519.ts";
import { keyFile, readKeyFile } from "./key-file.ts";
import { keyBytes, keyFolder } from "./master-keys.ts";

/** Files of the key folder: the key, and the one before it while receivers change over. */
const [WEBHOOK, OLD_WEBHOOK] = ["webhook", "webhook.old"] as const;

/**
 * Returns the keys, the newest first, of which each signs every delivery, and the file that this start has made.
 * @param given texts of the config or the environment; where there is a key, the folder is not read
 * @throws StartError 78 naming the key that is missing, wrong or damaged
 */
export async function loadWebhookKeys(
  dataDir: string,
  given: { readonly webhook?: string; readonly olderWebhook?: readonly string[] },
): Promise<{ readonly keys: readonly Ed25519Key[]; readonly made: readonly string[] }> {
  const older = (given.olderWebhook ?? []).map((text) => read(text, "an older webhook key (RELAY_WEBHOOK_KEY_OLDER)"));
  if (given.webhook !== undefined)
    return { keys: [read(given.webhook, "the webhook key (RELAY_WEBHOOK_KEY)"), ...older], made: [] };
  const path = join(keyFolder(dataDir), WEBHOOK);
  const file = await keyFile(path, () => randomBytes(32).toString("base64"));
  const oldPath = join(keyFolder(dataDir), OLD_WEBHOOK);
  const old = await readKeyFile(oldPath);
  const keys = [read(file.text, path), ...(old === undefined ? [] : [read(old, oldPath)]), ...older];
  return { keys, made: file.made ? [path] : [] };
}

function read(text: string, named: string): Ed25519Key {
  const seed = keyBytes(text);
  if (seed === undefined) throw new StartError(78, `${named} must be 32 bytes in base64`);
  return ed25519Key(seed);
}
