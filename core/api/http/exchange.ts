/** What carries out requests: the parts of the relay, and the endpoints. */
import type { Limiter, LimitRefusalCode } from "../../limits/limiter.ts";
import type { Auth } from "../../ports/auth.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Log, Metrics } from "../../ports/plugin.ts";
import type { Route } from "../../ports/route.ts";
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
