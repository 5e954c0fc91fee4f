/** The names of request headers: which a subscription cannot set, and which of a delivery may be repeated. */

/** A token of RFC 9110. */
export const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
export const MAX_HEADER_NAME = 128;

const RESERVED =
  /^(?:host|content-.*|transfer-encoding|connection|keep-alive|proxy-.*|upgrade|http2-settings|expect|te|trailer|cookie|user-agent|webhook-.*|x-relay-.*|traceparent)$/i;

/** The headers of a delivery that the config may repeat under names of one's own (`signature.headers`). */
export const REPEATABLE = [
  "X-Relay-Webhook-Signature",
  "X-Relay-Webhook-Signature-Previous",
  "webhook-id",
  "webhook-timestamp",
  "webhook-signature",
  "X-Relay-Event",
  "X-Relay-Attempt",
  "X-Relay-Replay",
] as const;

/** Which header each name of one's own repeats. */
export type RepeatedHeaders = Readonly<Record<string, (typeof REPEATABLE)[number]>>;

/** Returns true for the name of a static header that is refused. It is dropped where an older record has it. */
export const isReservedHeader = (name: string): boolean => RESERVED.test(name);

/** False for a header that a delivery has anyway, which a receiver would get twice. */
export const mayStandBeside = (name: string): boolean => !isReservedHeader(name) && !/^accept-encoding$/i.test(name);
