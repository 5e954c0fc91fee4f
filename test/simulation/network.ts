/** Receivers that fail, lie and forget, behind a network that drops and delays; and a book of all they ever saw. */
import type { Reply, Transport, TransportRequest } from "../../core/ports/transport.ts";
import { GENESIS, type Life, type World } from "./world.ts";

/** How a receiver behaves for now. */
export type Mood = "well" | "failing" | "slow" | "hanging" | "forgetful" | "busy" | "gone" | "wild";
export const MOODS: readonly Mood[] = ["well", "failing", "slow", "hanging", "forgetful", "busy", "gone", "wild"];

/** A request as the receiver saw it. */
export interface Seen {
  readonly subscriptionId: string;
  readonly eventId: string;
  readonly cycle: number;
  readonly number: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly node: Life;
  /** Ms of the world when its first byte left the node. */
  readonly sentAt: number;
  /** When the node was frozen last, and until when. */
  readonly thawedAt: number;
  /** By how much the node's clock was wrong then, ms. */
  readonly offset: number;
  /** Status that the receiver answered, also where the node never heard it. */
  answered?: number;
  /** The rest that it asked for in an answer which the node heard, ms. */
  asked?: number;
  /** The node aborted it: the attempt was called off. */
  aborted?: true;
}

export interface SimNet {
  /** Requests that arrived. */
  readonly seen: Seen[];
  /** All that was sent, whether or not it arrived. */
  readonly sent: Seen[];
  /** By subscription; what is not there is well. */
  readonly moods: Map<string, Mood>;
  transport(life: Life): Transport;
}

/** @param rests what a busy receiver may ask for, as `Retry-After` */
export function simNet(world: World, rests: readonly string[]): SimNet {
  const { random } = world;
  const seen: Seen[] = [];
  const sent: Seen[] = [];
  const moods = new Map<string, Mood>();

  /** Draws what comes of a request: a status with its delay, or nothing; and whether the answer is lost on its way. */
  function fate(mood: Mood): {
    readonly status?: number;
    readonly ms: number;
    readonly lost: boolean;
    retryAfter?: string;
  } {
    const ms = random.next() * 40;
    switch (mood) {
      case "well":
        return { status: 200, ms, lost: false };
      case "failing":
        return { status: random.pick([500, 404, 302, 400]), ms, lost: false };
      case "slow":
        return { status: 200, ms: random.next() * 12_000, lost: false };
      case "hanging":
        return { ms, lost: true };
      case "forgetful":
        // It has taken the event in, and the connection is reset before anyone hears of it.
        return { status: 200, ms, lost: true };
      case "busy":
        return {
          status: random.pick([429, 503]),
          ms,
          lost: false,
          retryAfter: random.pick(rests),
        };
      case "gone":
        return { status: 410, ms, lost: false };
      case "wild":
        return fate(random.pick(["well", "well", "failing", "slow", "hanging", "forgetful", "busy"]));
    }
  }

  return {
    seen,
    sent,
    moods,
    transport: (life) => ({
      schemes: ["https"],
      send(request: TransportRequest, signal: AbortSignal): Promise<Reply> {
        if (!life.alive()) return new Promise(() => {});
        const { headers } = request;
        const one: Seen = {
          subscriptionId: request.subscriptionId,
          eventId: headers["webhook-id"] as string,
          cycle: Number(headers["X-Relay-Replay"] ?? 0),
          number: Number(headers["X-Relay-Attempt"]),
          headers,
          body: Buffer.from(request.body).toString("utf8"),
          node: life,
          sentAt: world.now(),
          thawedAt: life.frozenUntil(),
          offset: life.clock.now() - GENESIS - world.now(),
        };
        const { status, ms, lost, retryAfter } = fate(moods.get(request.subscriptionId) ?? "well");
        // Some requests never arrive.
        const dropped = status === undefined && random.chance(0.5);
        sent.push(one);
        if (!dropped) seen.push(one);
        world.say(`${life.name} sends ${one.eventId} to ${one.subscriptionId.slice(4, 10)} ${one.cycle}/${one.number}`);
        return new Promise((resolve, reject) => {
          const abort = (): void => {
            one.aborted = true;
            reject(signal.reason as Error);
          };
          if (signal.aborted) return abort();
          signal.addEventListener("abort", abort, { once: true });
          const end = (reply: Reply): void => {
            signal.removeEventListener("abort", abort);
            resolve(reply);
          };
          // The receiver's side goes on whatever becomes of the node.
          if (status !== undefined) world.after(ms, () => void (one.answered = status));
          if (status !== undefined && !lost && ms < request.timeoutMs) {
            life.after(ms + random.next() * 10, () => {
              if (/^\d+$/.test(retryAfter ?? "")) one.asked = Number(retryAfter) * 1_000;
              end({ kind: "response", status, retryAfter, excerpt: new Uint8Array(), truncated: false });
            });
          } else if (status !== undefined && lost) {
            life.after(ms + 1, () => end({ kind: "error", error: "reset", detail: "connection reset" }));
          } else {
            life.after(request.timeoutMs, () => end({ kind: "error", error: "timeout", detail: "no answer in time" }));
          }
        });
      },
      dispose: () => Promise.resolve(),
    }),
  };
}
