/** The shared vectors of test/fixtures/vectors: tokens, URLs, and timed sequences of requests. */
import { readFileSync } from "node:fs";

export interface TokenVector {
  readonly id: string;
  readonly group: string;
  readonly name: string;
  readonly server_mode?: "HS256";
  readonly expect_status: number;
}

export interface UrlVector {
  readonly id: string;
  readonly url: string;
  readonly allowed: boolean;
  readonly why: string;
  readonly stage: string;
  readonly code: string;
  readonly resolves_to?: readonly string[];
  readonly resolve_sequence?: readonly (readonly string[])[];
  readonly dns_error?: string;
  readonly redirects_to?: string;
  readonly peer_address?: string;
  readonly own_addresses?: readonly string[];
  readonly config?: { readonly ports?: readonly number[] };
}

export interface LimitVector {
  readonly id: string;
  readonly name: string;
  readonly kind: "sequence" | "scenario";
  readonly config: { readonly sustained: { readonly limit: number }; readonly burst: { readonly limit: number } };
  readonly requests: readonly {
    readonly t_ms: number;
    readonly backpressure_ms?: number;
    readonly expect: Readonly<Record<string, string | number | null>>;
  }[];
}

const read = (name: string) =>
  JSON.parse(readFileSync(new URL(`../fixtures/vectors/${name}.json`, import.meta.url), "utf8"));

export const tokenVectors: readonly TokenVector[] = read("jwt");
export const urlVectors: readonly UrlVector[] = read("ssrf");

const limits: { readonly semantics: { readonly epoch_of_t0: number }; readonly vectors: readonly LimitVector[] } =
  read("limiter");
/** The moment 0 of the sequences, seconds since 1970. */
export const { epoch_of_t0: LIMITS_BEGIN } = limits.semantics;
export const limitSequences = limits.vectors.filter(({ kind }) => kind === "sequence");
