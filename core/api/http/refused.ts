/** A refusal by the limiter, as a problem. Its headers go with the answer. */
import type { LimitVerdict } from "../../limits/limiter.ts";
import { Problem } from "../../model/problem.ts";
import type { Principal } from "../../ports/auth.ts";
import { GO_SLOWER } from "./reply.ts";

export class Refused extends Problem {
  readonly verdict: LimitVerdict;
  /** Who was refused, where that is known. */
  readonly principal: Principal | undefined;
  constructor(verdict: LimitVerdict, principal?: Principal) {
    super(verdict.code ?? "RATE_LIMIT_EXCEEDED", GO_SLOWER, { retryAfter: verdict.retryAfter });
    this.verdict = verdict;
    this.principal = principal;
  }
}
