/** Sets up a developer's desk: a relay on its own folder, a local TLS receiver, and a subscription to everything. */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { systemReason } from "../../core/lib/system-error.ts";
import type { CliEnvironment } from "../support/environment.ts";
import type { Api } from "../support/client.ts";
import { EX_UNAVAILABLE, ExitError } from "../support/exit.ts";
import { keptAuthority } from "./kept-authority.ts";
import { openLocalStage, writeStageConfig } from "./stage.ts";
import type { ReceiverOptions } from "./receiver.ts";
import { record } from "../support/response-shape.ts";

/** The API key of the desk. */
export const DEV_KEY = "key_dev";
const PATH = "/hook";
const RETRY = "{ attempts: 5, firstDelayMs: 1_000, factor: 2, maxDelayMs: 10_000 }";

export type Desk = Awaited<ReturnType<typeof openDesk>>;

interface DeskOptions extends Pick<ReceiverOptions, "answer" | "arrived"> {
  /** Where the relay and the receiver keep what outlives them. */
  readonly folder: string;
  /** Of the relay; 0 asks for any free one. */
  readonly port: number;
}

interface Subscribed {
  readonly id: string;
  readonly secret: string;
}

/** @throws ExitError 69 when the folder cannot be used or the relay does not start */
export async function openDesk({ folder, port, answer, arrived }: DeskOptions, io: CliEnvironment) {
  let config: string;
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await writeFile(join(folder, ".gitignore"), "*\n");
    config = await writeStageConfig(folder, port, RETRY, "relay dev");
  } catch (error) {
    throw new ExitError(EX_UNAVAILABLE, `cannot keep anything in ${folder}: ${systemReason(error)}`);
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
    /** What signs the deliveries; the same after a restart. */
    secret,
    /** File with the token that may publish. */
    tokenFile: join(folder, "data", "keys", "publish-token"),
    /** Resolves when the relay ends by itself, to what it said last. */
    ended: stage.ended.then((code) => (closing ? "" : `the relay ended (${code}):\n${output().trim()}`)),
    async publish(body: string) {
      const answer = await publisher.ask("POST", "/events", body);
      return record<{ id: string; deliveries: number }>(answer, { id: "text", deliveries: "number" });
    },
  };
}

/** The subscription of an earlier run with the receiver's new address; a new one where there is none. */
async function subscribed(api: Api, file: string, url: string): Promise<Subscribed> {
  const webhooks = `/api-keys/${DEV_KEY}/webhooks`;
  const kept = await readFile(file, "utf8")
    .then((text) => JSON.parse(text) as Subscribed)
    .catch(() => undefined);
  if (kept !== undefined) {
    const { data } = await api.ask("GET", webhooks);
    if ((data as readonly { readonly id: string }[]).some(({ id }) => id === kept.id)) {
      await api.ask("PATCH", `${webhooks}/${kept.id}`, { url, status: "active" });
      return kept;
    }
  }
  const made = record<Subscribed>(await api.ask("POST", webhooks, { url, events: ["*"] }), {
    id: "text",
    secret: "text",
  });
  await writeFile(file, JSON.stringify({ id: made.id, secret: made.secret }), { mode: 0o600 });
  return made;
}
