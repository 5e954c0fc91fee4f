/** Fills in `notify`, and checks it against the rest of the config. */
import { NOTICE_TYPES } from "../core/model/notice.ts";
import type { Plan } from "../core/ports/plan.ts";
import type { ConfigProblem } from "./problems.ts";
import type { CheckedConfig } from "./schema.ts";

/** Half of a bound at which publishing is refused is time enough to do something. */
export function notifyOf({ notify = {}, intake = {} }: CheckedConfig): Plan["notify"] {
  const { to = [], pending, pendingPerKey } = notify;
  return {
    to: to.map(({ events = NOTICE_TYPES, ...rest }) => ({ events, ...rest })),
    pending: pending ?? Math.ceil((intake.maxPending ?? 0) / 2),
    pendingPerKey: pendingPerKey ?? Math.ceil((intake.maxPendingPerKey ?? 0) / 2),
  };
}

/** A target whose transform the config does not have. */
export const unknownTransforms = ({ notify, transforms }: Plan): ConfigProblem[] =>
  notify.to.flatMap(({ transform }, i) =>
    transform === undefined || Object.hasOwn(transforms, transform)
      ? []
      : [{ path: `notify.to[${i}].transform`, message: "is not a transform of this config" }],
  );
