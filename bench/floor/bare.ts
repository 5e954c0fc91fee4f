/**
 * The least that takes an event in and sends it on: Node's HTTP server, JSON.parse, both signatures, undici over TLS; and
 * with a storage also the writer thread of sqlite() with the relay's rows, before the 202 and after the reply. It has no
 * guard, no deadline, no queue, no retry, no check, no log and no metric.
 */
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { dirname, join } from "node:path";
import { Client } from "undici";
import { loadConfig } from "../../config/load.ts";
import type { Due } from "../../core/model/delivery.ts";
import { deliveryBody } from "../../core/model/event.ts";
import { ordinals, ordinalTime } from "../../core/model/ids.ts";
import { DUE, EVENT, EVENT_ID } from "../../core/model/schema.ts";
import { makeDurableFolder } from "../../core/ports/folder.ts";
import type { Change } from "../../core/ports/storage.ts";
import { dropDue, freshDelivery, putDelivery } from "../../core/records/delivery-records.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { signedHeaders } from "../../core/signing/headers.ts";
import { newSecret, signingKey } from "../../core/signing/secret.ts";
import { openWriter } from "../../plugins/storage/sqlite/writer.ts";

interface Publication {
  readonly id?: string;
  readonly type: string;
  readonly keyId: string;
  readonly data: unknown;
}
interface Taken {
  readonly due: Due;
  readonly id: string;
  readonly type: string;
  readonly body: Buffer;
}

const SUBSCRIPTION = "sub_00000000000000000000000000";

/** Serves by the config that the process is given, until the process is ended. */
export async function serveBare({ stored }: { readonly stored: boolean }): Promise<void> {
  const config = process.argv[2] as string;
  const folder = dirname(config);
  const { plan } = await loadConfig({ flags: { config }, env: process.env, cwd: process.cwd() });
  makeDurableFolder(join(folder, "data"));
  const start = { path: join(folder, "data", "relay.db"), cacheKiB: 8_192 };
  const writer = stored ? await openWriter(start, () => undefined, systemClock()) : undefined;
  const commit = (changes: readonly Change[]): Promise<void> | undefined => writer?.commit(changes);
  const ca = readFileSync(join(folder, "ca.pem"));
  const secret = newSecret();
  const keys = [signingKey(secret)];
  const mint = ordinals(Date.now);
  const idle: Client[] = [];
  let target = new URL("https://127.0.0.1");

  function send(headers: Record<string, string>, body: Buffer): Promise<number> {
    const made = { pipelining: 1, headersTimeout: 0, bodyTimeout: 0, connect: { ca } };
    const client = idle.pop() ?? new Client(target.origin, made);
    return new Promise((resolve, reject) => {
      let status = 0;
      client.dispatch(
        { method: "POST", path: target.pathname, headers, body },
        {
          onRequestStart: () => undefined,
          onResponseStart: (_controller, code) => void (status = code),
          onResponseData: () => undefined,
          onResponseEnd() {
            idle.push(client);
            resolve(status);
          },
          onResponseError: (_controller, error) => reject(error),
        },
      );
    });
  }

  async function accept(text: string): Promise<Taken> {
    const { type, keyId, data, id: own } = JSON.parse(text) as Publication;
    const ordinal = mint();
    const acceptedAt = ordinalTime(ordinal);
    const id = own ?? `evt_${ordinal}`;
    const body = deliveryBody(id, type, keyId, acceptedAt, JSON.stringify(data));
    const due = {
      subscriptionId: SUBSCRIPTION,
      keyId,
      ordinal,
      dueAt: acceptedAt,
      generation: 0,
      cycle: 0,
      attempts: 0,
    };
    if (writer !== undefined) {
      const event = {
        id,
        type,
        keyId,
        ordinal,
        createdAt: acceptedAt,
        acceptedAt,
        subscriptionIds: [SUBSCRIPTION],
        body,
      };
      await commit([
        ...(own === undefined
          ? []
          : [{ op: "put", key: EVENT_ID.key({ keyId, id: own }), value: ordinal, if: null } as const]),
        { op: "put", key: EVENT.key({ keyId, ordinal }), value: EVENT.write(event), if: null },
        { op: "put", key: DUE.key(due), value: DUE.write(due) },
      ]);
    }
    return { due, id, type, body: Buffer.from(body) };
  }

  async function deliver({ due, id, type, body }: Taken): Promise<void> {
    const startedAt = Date.now();
    const headers = signedHeaders({ eventId: id, type, body, attempt: 1, cycle: 0 }, keys, startedAt);
    const statusCode = await send(headers, body);
    if (statusCode !== 200) throw new Error(`the receiver answered ${statusCode}`);
    const now = Date.now();
    const made = { cycle: 0, number: 1, startedAt, durationMs: now - startedAt, statusCode };
    const ended = {
      ...freshDelivery(due, id),
      status: "delivered",
      attempts: [made],
      nextAttemptAt: undefined,
    } as const;
    await commit([putDelivery({ ...ended, updatedAt: now }), dropDue(due)]);
  }

  async function take(request: IncomingMessage, response: ServerResponse, text: string): Promise<void> {
    const answer = (status: number, body: object): void => {
      const json = JSON.stringify(body);
      const length = String(Buffer.byteLength(json));
      response.writeHead(status, ["Content-Type", "application/json", "Content-Length", length]).end(json);
    };
    if (request.method === "GET") return answer(200, {});
    if (request.url !== "/events") {
      target = new URL((JSON.parse(text) as { readonly url: string }).url);
      return answer(201, { data: { secret } });
    }
    const taken = await accept(text);
    answer(202, { data: { id: taken.id } });
    await deliver(taken);
  }

  createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => void take(request, response, Buffer.concat(parts).toString()));
  }).listen(plan.server.port, plan.server.host);
}
