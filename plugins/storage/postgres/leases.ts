/** The leases of this node: the line of each, and until when this node may believe in it without asking. */
import { DUE } from "../../../core/model/schema.ts";
import type { Lease } from "../../../core/ports/storage.ts";

interface Held {
  key: string;
  /** Monotonic ms. */
  until: number;
}

/** Behind every key of a subscription's lines: its prefix. */
const linesOf = (subscriptionId: string): string => DUE.under({ subscriptionId });

export class Leases {
  readonly #held = new Map<string, Held>();

  set(token: string, key: string, until: number): void {
    this.#held.set(token, { key, until });
  }

  /** @returns the key of its line, also of one that another line has taken the place of */
  keyOf(lease: Lease): string {
    const key = this.#held.get(lease.token)?.key;
    return key?.startsWith(linesOf(lease.subscriptionId)) === true ? key : DUE.key(lease);
  }

  /** Returns until when this node may believe in the lease; 0: not at all. */
  until({ subscriptionId, token }: Lease): number {
    const held = this.#held.get(token);
    return held?.key.startsWith(linesOf(subscriptionId)) === true ? held.until : 0;
  }

  renewed(token: string, until: number): void {
    const held = this.#held.get(token);
    if (held !== undefined) held.until = until;
  }

  /** Notes that another line has taken the place of its line. */
  moved(token: string, key: string): void {
    this.#held.set(token, { key, until: this.#held.get(token)?.until ?? 0 });
  }

  end(token: string): void {
    this.#held.delete(token);
  }

  endAll(subscriptionId: string): void {
    const lines = linesOf(subscriptionId);
    for (const [token, { key }] of this.#held) if (key.startsWith(lines)) this.#held.delete(token);
  }
}
