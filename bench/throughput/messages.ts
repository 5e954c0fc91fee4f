// Defines the messages between the processes of a run.
import type { Form } from "./event.ts";

export type ToReceiver =
  | { readonly kind: "listen"; readonly cert: string; readonly key: string }
  | { readonly kind: "secret"; readonly secret: string }
  /** Forgets all figures. */
  | { readonly kind: "reset" }
  /** So long it waits with each answer, ms. At first it does not. */
  | { readonly kind: "delay"; readonly ms: number }
  /** Answer when this many good requests, repeated ones not counted, have come in since the last reset, or after `withinMs`. */
  | { readonly kind: "await"; readonly count: number; readonly withinMs?: number }
  | { readonly kind: "read" };
export type FromReceiver =
  | { readonly kind: "listening"; readonly port: number }
  | { readonly kind: "done" }
  | { readonly kind: "reached"; readonly at: number }
  | {
      readonly kind: "figures";
      readonly good: number;
      readonly bad: number;
      readonly repeated: number;
      /** The number of the event of each good delivery that is no repeated one. */
      readonly numbers: readonly number[];
      /** When each of them was received as a whole, monotonic ms. */
      readonly at: readonly number[];
      /** ms from sending the publication until then. */
      readonly fromSent: readonly number[];
    };

export interface LoopRequest {
  readonly url: string;
  readonly ca: string;
  readonly secret: string;
  readonly seconds: number;
  /** Requests a second, evenly; as fast as answers come when left out. */
  readonly rate?: number;
}
export interface LoopReply {
  readonly requests: number;
  readonly ms: number;
  /** With a rate: from when each was due until its answer, ms. */
  readonly latencies: readonly number[];
  /** Of the loop's own process. */
  readonly cpuMicroseconds: number;
}

export interface PublishRequest {
  readonly port: number;
  /** Of several nodes, in place of the port: the connections are spread over them. */
  readonly ports?: readonly number[];
  readonly token: string;
  /** @default CONNECTIONS */
  readonly connections?: number;
  readonly seconds: number;
  /** Requests a second, evenly; as fast as answers come when left out. */
  readonly rate?: number;
  /** @default "single" */
  readonly form?: Form;
  readonly keyId?: string;
  /** Ends after so many requests, when that is before the time is over. */
  readonly most?: number;
}
export interface PublishReply {
  /** Events. */
  readonly accepted: number;
  /** Requests. */
  readonly refused: number;
  /** Monotonic ms. */
  readonly from: number;
  readonly to: number;
  /** Number of the first event. */
  readonly first: number;
  /** When the 202 of each was read, in the order of the numbers, monotonic ms; `NaN`: it was not accepted. */
  readonly acceptedAt: readonly number[];
}
