/** Checks event names, and matches them with the patterns of subscriptions. */

/** A name of an event: parts of letters, digits, `_` and `-`. It has 128 characters at most. */
export const EVENT_NAME = /^[A-Za-z0-9_-]+(?:[:.][A-Za-z0-9_-]+)*$/;
const PATTERN = /^(?:[A-Za-z0-9_-]+|\*)(?:[:.](?:[A-Za-z0-9_-]+|\*))*$/;
const KEY_ID = /^[A-Za-z0-9][A-Za-z0-9_:-]{0,63}$/;
const EVENT_ID = /^[A-Za-z0-9][A-Za-z0-9_:-]{0,127}$/;
const PLUGIN_NAME = /^[\w.@/:-]{1,100}$/;

/** The prefix of the relay's own operational events. Only patterns with this prefix match them. */
export const OPERATIONAL = "relay:";
/** The API key of the relay's operator. Its subscriptions are offered the operational events of every key. */
export const OPERATOR_KEY = "relay:operator";

export const isEventName = (text: string): boolean => text.length <= 128 && EVENT_NAME.test(text);
export const isEventPattern = (text: string): boolean => text.length <= 128 && PATTERN.test(text);
export const isKeyId = (text: string): boolean => KEY_ID.test(text);
export const isEventId = (text: string): boolean => EVENT_ID.test(text);
/** Returns whether a plug-in can have this name: it is a label of metrics and a part of `/readyz`. */
export const isPluginName = (name: unknown): name is string => typeof name === "string" && PLUGIN_NAME.test(name);

/** Returns whether a pattern matches a name. `*` stands for one part, a last `*` for one or more; separators must be the same. */
export function matchesPattern(pattern: string, name: string): boolean {
  if (name.startsWith(OPERATIONAL) && !pattern.startsWith(OPERATIONAL)) return false;
  if (!pattern.includes("*")) return pattern === name;
  const wanted = pattern.split(/([:.])/);
  const given = name.split(/([:.])/);
  if (given.length < wanted.length) return false;
  const open = wanted.at(-1) === "*";
  if (!open && given.length !== wanted.length) return false;
  return wanted.every((part, i) => part === "*" || part === given[i]);
}
