/** Lists request headers that a subscription cannot set, because they belong to the relay or to the connection. */

const RESERVED =
  /^(?:host|content-.*|transfer-encoding|connection|keep-alive|proxy-.*|upgrade|http2-settings|expect|te|trailer|cookie|user-agent|webhook-.*|x-relay-.*|traceparent)$/i;

/** Whether a static header of this name is refused. It is dropped where an older record has it. */
export const isReservedHeader = (name: string): boolean => RESERVED.test(name);
