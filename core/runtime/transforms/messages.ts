/** What a relay and the processes that run its transforms say to each other. */
import type { TransformContext } from "../../model/transform.ts";

/** Asks a process for one run. The next request follows its answer. */
export interface RunRequest {
  /** Tells the answer of this run from a late one. */
  readonly run: number;
  readonly name: string;
  /** The delivery body of the event, as stored. */
  readonly body: string;
  readonly context: TransformContext;
}

/** The first message of a process: it has loaded the config, or why it cannot. */
export type ProcessStart = { readonly ready: true } | { readonly ready: false; readonly reason: string };

/** The result of one run: the body to send, or why there is none. */
export type RunAnswer =
  | { readonly run: number; readonly text: string }
  | { readonly run: number; readonly failed: string; readonly threw: boolean };
