/** Sets up a developer's desk: a relay on its own folder, a local TLS receiver, and a subscription to everything. */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { reasonOf } from "../../core/lib/reason.ts";
import { shaped } from "../support/ask.ts";
import { keptAuthority } from "../support/certificates.ts";
import type { Api } from "../support/client.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { EX_UNAVAILABLE, ExitError } from "../support/exit.ts";
import { objectOf } from "../support/inputs.ts";
import { openLocalStage, writeStageConfig } from "./stage.ts";
import type { ReceiverOptions } from "./receiver.ts";

/** The API key of the desk. */
export const DEV_KEY = "key_dev";
const PATH = "/hook";
const RETRY = "{ attempts: 5, firstDelayMs: 1_000, factor: 2, maxDelayMs: 10_000 }";

export type Desk = Awaited<ReturnType<typeof openDesk>>;

interface DeskOptions extends Pick<ReceiverOptions, "answer" | "arrived"> {
  /** Keeps what outlives the relay and the receiver. */
  readonly folder: string;
  /** Of the relay; 0 asks for any free one. */
  readonly port: number;
}

/** @throws ExitError 69 when the folder cannot be used or the relay does not start */
export async function openDesk({ folder, port, answer, arrived }: DeskOptions, io: CliEnvironment) {
  let config: string;
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await writeFile(join(folder, ".gitignore"), "*\n");
    config = await writeStageConfig(folder, port, RETRY, "relay dev");
  } catch (error) {
    throw new ExitError(EX_UNAVAILABLE, `cannot keep anything in ${folder}: ${reasonOf(error)}`);
  }
  const authority = await keptAuthority(folder, io);
  let secret = "nothing is subscribed yet";
  const stage = await openLocalStage({ config, authority, secrets: () => [secret], answer, arrived }, io);
  const { api, publisher, relayUrl, receiverUrl, output } = stage;
  let closing = false;
  const close = async (): Promise<void> => {
    closing = true;
    await stage.close();
  };
  try {
    ({ secret } = await subscribed(api, join(folder, "subscription.json"), receiverUrl + PATH));
  } catch (error) {
    await close();
    throw error;
  }
  return {
    close,
    relayUrl,
    /** Signs the deliveries; the same after a restart. */
    secret,
    tokenFile: join(folder, "data", "keys", "publish-token"),
    /** Resolves when the relay ends by itself, to what it said last. */
    ended: stage.ended.then((code) => (closing ? "" : `the relay ended (${code}):\n${output().trim()}`)),
    publish: async (body: string) =>
      shaped(await publisher.ask("POST", "/events", body), { id: "text", deliveries: "number" }),
  };
}

/** Returns the subscription of an earlier run with the receiver's new address; a new one where there is none. */
async function subscribed(api: Api, file: string, url: string) {
  const webhooks = `/api-keys/${DEV_KEY}/webhooks`;
  const kept = await readFile(file, "utf8")
    .then((text) => JSON.parse(text) as { readonly id: string; readonly secret: string })
    .catch(() => undefined);
  const all = kept === undefined ? [] : shaped(await api.ask("GET", webhooks), [{ id: "text" }]);
  if (kept !== undefined && all.some(({ id }) => id === kept.id)) {
    await api.ask("PATCH", `${webhooks}/${kept.id}`, { url, status: "active" });
    return kept;
  }
  const answer = await api.ask("POST", webhooks, { url, events: ["*"] });
  const { id, secret } = shaped(answer, { id: "text", secret: "text" });
  await writeFile(file, JSON.stringify({ id, secret }), { mode: 0o600 });
  return { id, secret };
}

/**
 * Makes the body of `POST /events` of a saved JSON file. A file with `type` and `data` is a publication; every other file is
 * the data of an event whose type is the file's name. Numbers and spaces reach the receiver as they stand in the file.
 * @throws SyntaxError when the file is no JSON
 */
export function publicationOf(name: string, text: string, keyId: string): string {
  const file = objectOf(JSON.parse(text));
  const key = `"keyId":${JSON.stringify(keyId)},`;
  if (file === undefined || !Object.hasOwn(file, "data") || typeof file["type"] !== "string")
    return `{"type":${JSON.stringify(name.replace(/\.json$/, ""))},${key}"data":${text.trim()}}`;
  return Object.hasOwn(file, "keyId") ? text : text.replace("{", `{${key}`);
}
