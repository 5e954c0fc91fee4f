/** The statuses of deliveries and events, and what an attempt fails with, as requests and answers name them. */
import { z } from "zod";

export const deliveryStatuses = z.enum(["pending", "delivered", "failed", "cancelled"]);
export const eventStatuses = z.enum(["pending", "delivered", "failed", "cancelled", "unmatched"]);
/** Stages at which an attempt fails without a usable response. */
export const attemptErrors = z.enum([
  "dns",
  "guard",
  "connect",
  "tls",
  "timeout",
  "reset",
  "protocol",
  "token",
  "transform",
]);
