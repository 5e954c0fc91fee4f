/** The relay's own format: what `GET …/webhooks` lists, and the secret, which the list does not have. */
import { objectOf } from "./entries.ts";
import type { Format } from "./format.ts";

/** What the relay gives a subscription; an import gives it new ones. */
const GIVEN_BY_RELAY = ["id", "disabledReason", "createdAt", "updatedAt"];

/** Fields that it does not know are kept, so that the check of the entry names them. */
export const ours: Format = (fields) => {
  const body = Object.fromEntries(Object.entries(fields).filter(([name]) => !GIVEN_BY_RELAY.includes(name)));
  // A schedule is listed with the attempts that follow from it, which a request does not name.
  const delaysMs = objectOf(body["retry"])?.["delaysMs"];
  return { body: delaysMs === undefined ? body : { ...body, retry: { delaysMs } } };
};
