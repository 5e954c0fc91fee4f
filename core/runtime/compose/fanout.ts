/** The fan-out of wide events, composed. */
import { FANOUT_BOUNDS, type FanoutBounds } from "../../publish/write-event.ts";
import type { Deliver } from "../../deliver/deliveries.ts";
import { createExpand } from "../../deliver/expand-fanout.ts";
import { withFanouts } from "../../deliver/fanout-slots.ts";
import { createRecipients, type Recipients } from "../../records/recipients.ts";
import type { Slots } from "../../deliver/slots.ts";
import { isFanoutLane } from "../../model/keys.ts";
import * as path from "./delivery-path.ts";
import { token, type Get, type Container } from "./container.ts";

export const BOUNDS = token<FanoutBounds>("fan-out bounds");
export const RECIPIENTS = token<Recipients>("recipients");
const EXPAND = token<Deliver>("expand");

export function registerFanout(house: Container, bounds: FanoutBounds = FANOUT_BOUNDS): void {
  house.put(BOUNDS, bounds);
  house.make(RECIPIENTS, (get) => createRecipients(get(path.STORAGE)));
  house.make(EXPAND, (get) =>
    createExpand({
      storage: get(path.STORAGE),
      clock: get(path.CLOCK_TOKEN),
      log: get(path.LOG),
      hot: get(path.EVENT_CACHE),
      recipients: get(RECIPIENTS),
      page: get(BOUNDS).page,
      written: get(path.STATS_COLLECTOR).matched,
    }),
  );
}

/** What the dispatcher does with a lease: a page of a fan-out, or the attempts of a delivery. */
export const work =
  (get: Get): Deliver =>
  (lease, ...rest) =>
    get(isFanoutLane(lease.subscriptionId) ? EXPAND : path.DELIVERIES)(lease, ...rest);

/** The slots of the dispatcher: those of the wire, and room for pages beside them. */
export const slotsWithFanouts = (get: Get): Slots => withFanouts(get(path.SLOTS));
