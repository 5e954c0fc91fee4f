/** W3C trace context, as it comes from outside. */

const LONGEST_TRACEPARENT = 256;
const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/;

/** Returns the traceparent unchanged if it is valid (https://www.w3.org/TR/trace-context/); a broken one is ignored. */
export function traceparentOf(given: unknown): string | undefined {
  if (typeof given !== "string" || given.length > LONGEST_TRACEPARENT) return undefined;
  const [, version, traceId, parentId, more] = TRACEPARENT.exec(given) ?? [];
  if (version === undefined || version === "ff" || (version === "00" && more !== undefined)) return undefined;
  return traceId === "0".repeat(32) || parentId === "0".repeat(16) ? undefined : given;
}
