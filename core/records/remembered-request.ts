/** Reads and writes the row of a request with an Idempotency-Key. */
import type { Accepted } from "../ports/source.ts";

export interface RememberedRequest {
  readonly digest: string;
  /** Epoch ms. */
  readonly until: number;
  readonly answer: readonly Accepted[];
}

export const rememberedText = (request: RememberedRequest): string => JSON.stringify(request);

/** Returns `undefined` for a damaged row. */
export function parseRemembered(text: string): RememberedRequest | undefined {
  try {
    const read = JSON.parse(text) as Partial<RememberedRequest> | null;
    const { digest, until, answer } = read ?? {};
    const whole = typeof digest === "string" && Number.isFinite(until) && Array.isArray(answer);
    return whole ? (read as RememberedRequest) : undefined;
  } catch {
    return undefined;
  }
}
