/** What the main thread and the side thread tell each other, as plain data. */
import type { MessagePort } from "node:worker_threads";
import type { Credentials } from "../../model/credentials.ts";
import type { Reply, TransportRequest } from "../../ports/transport.ts";

/** What a side thread is started with. */
export interface SideStart {
  /** Places in the plan of the transports that it sets up. */
  readonly transports: readonly number[];
  /** Carries the calls `start`, `send`, `abort`, `forget`, `look` and `stop`. */
  readonly control: MessagePort;
}

/** A request for a transport of the plan. `call` names it where it is aborted. */
export interface SideRequest {
  readonly transport: number;
  readonly call: number;
  readonly request: TransportRequest;
}

/** Bytes in a buffer of their own: a view that crosses takes all of its buffer along, which may be shared with other bodies. */
const own = (bytes: Uint8Array): Uint8Array =>
  bytes.byteLength === bytes.buffer.byteLength ? bytes : new Uint8Array(bytes);

export const sendable = (request: TransportRequest): TransportRequest => ({ ...request, body: own(request.body) });

export const answerable = (reply: Reply): Reply =>
  reply.kind === "response" ? { ...reply, excerpt: own(reply.excerpt) } : reply;

/** So many subscriptions with credentials are remembered. */
const MOST_KEPT = 10_000;

/** Gives a subscription the same object until what it holds changes, as `TransportRequest.credentials` says. */
export function createKeptCredentials(same: (a: Credentials, b: Credentials) => boolean) {
  const kept = new Map<string, Credentials>();
  return {
    of(request: TransportRequest): TransportRequest {
      const { subscriptionId, credentials } = request;
      if (credentials === undefined) return request;
      const known = kept.get(subscriptionId);
      if (known !== undefined && same(known, credentials)) return { ...request, credentials: known };
      if (kept.size >= MOST_KEPT) kept.clear();
      kept.set(subscriptionId, credentials);
      return request;
    },
    forget: (subscriptionId: string): void => void kept.delete(subscriptionId),
  };
}
