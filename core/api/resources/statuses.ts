/** The statuses of deliveries and events, as requests and answers name them. */
import { z } from "zod";

export const deliveryStatuses = z.enum(["pending", "delivered", "failed", "cancelled"]);
export const eventStatuses = z.enum(["pending", "delivered", "failed", "cancelled", "unmatched"]);
