/** Composes what reports the states of the relay, beside the path: the looks from time to time, and the operator's targets. */
import { createNoticeWatch } from "../../publish/notice-watch.ts";
import { createNotifyTargets } from "../../subscriptions/notify-targets.ts";
import { isFirst } from "../threads/node-thread.ts";
import type { Container } from "./container.ts";
import type { DeliveryPath } from "./parts.ts";

export function composeNotices(container: Container<DeliveryPath>): void {
  container.make(
    "noticeWatch",
    ["plan", "storage", "clock", "log", "subscriptionCache", "publisher", "thread"],
    ({ plan, publisher: { notices }, thread, ...base }) =>
      createNoticeWatch({ ...base, notices, bounds: plan.notify, first: isFirst(thread) }),
  );
  container.make(
    "notifyTargets",
    ["plan", "subscriptions", "storage", "clock", "log"],
    ({ plan: { notify }, ...base }) => createNotifyTargets({ ...base, targets: notify.to }),
  );
}
