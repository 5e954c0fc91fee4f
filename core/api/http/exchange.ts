/** One request on its way, and what is known of it so far. */
import type { H3Event } from "h3";
import type { Limiter, LimitRefusalCode, LimitVerdict } from "../../limits/limiter.ts";
import type { ProblemCode } from "../../model/problem.ts";
import type { Access } from "../../model/token.ts";
import type { Auth, Principal } from "../../ports/auth.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log, Metrics } from "../../ports/plugin.ts";
import type { Route } from "../../ports/route.ts";
import type { Call } from "./call.ts";
import type { CheckDeps } from "./checks.ts";
import type { AnyOperation } from "./operation.ts";

/** The parts of the relay that carry out every request. */
export interface ExchangeDeps extends Pick<CheckDeps, "stepUp"> {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly auth: Auth;
  readonly limits: Pick<Limiter, "check" | "unauthenticated">;
  /** Puts a refusal on the audit trail. @default it is not recorded */
  readonly trail?: CheckDeps["refused"];
  /** Called for each 429, with the key of the path where the caller owns it. */
  readonly refused?: (code: LimitRefusalCode, keyId: string | undefined) => void;
}

/** Either an operation of the management API, or a route of a plug-in. */
export type Endpoint =
  | { readonly method: string; readonly path: string; readonly operation: AnyOperation; readonly route?: undefined }
  | { readonly method: string; readonly path: string; readonly operation?: undefined; readonly route: Route };

export class Exchange {
  readonly call: Call;
  /** On the clock that never steps, ms. */
  readonly startedAt: number;
  /** The path of its endpoint, for metrics and log. */
  where = "none";
  /** Who asks for an operation. */
  principal: Principal | undefined;
  /** Who asks for a route, what it may do, and the names that the limits count: its `identify` found them. */
  caller: unknown;
  access: Access | undefined;
  counted: string | readonly string[] | undefined;
  /** Set when the limits have counted it. */
  verdict: LimitVerdict | undefined;
  limitHeaders: Readonly<Record<string, string>> | undefined;
  /** The problem that it is answered with. */
  code: ProblemCode | undefined;
  /** Whether that problem is logged as a refusal, whatever its status. */
  refusal = false;
  /** Whether the lines of its fault may be written; undefined while it has none. */
  logged: boolean | undefined;
  /** The status that it is answered with; undefined where its endpoint streams, or where the client is gone. */
  status: number | undefined;

  constructor(call: Call, startedAt: number) {
    this.call = call;
    this.startedAt = startedAt;
  }

  /** Counts it for nobody: called when the answer is a fault of ours, or of what is behind us. */
  async giveBack(): Promise<void> {
    if (this.verdict) this.limitHeaders = await this.verdict.giveBack();
  }
}

export const exchangeOf = (event: H3Event): Exchange => event.context["exchange"] as Exchange;
