/** Checks the options that all message sources share. */
import { StartError } from "../../../core/model/errors.ts";
import { unknownOptions } from "../../../core/model/field-errors.ts";
import { isAsync, NOT_ASYNC } from "../../../core/model/at-once.ts";
import { isEventName, isKeyId } from "../../../core/model/names.ts";
import type { FieldError } from "../../../core/model/problem.ts";
import { isSecretOption } from "../../../core/model/secret-option.ts";
import type { MessageOptions, Reading } from "./message.ts";

const SHARED: readonly string[] = ["name", "map", "keyId", "type"] satisfies (keyof MessageOptions)[];
const NAME = /^[A-Za-z][A-Za-z0-9-]{0,31}$/;

/** @param own names of the source's own options, which it checks itself */
export function messageProblems(options: unknown, own: readonly string[]): readonly FieldError[] {
  const given = (options ?? {}) as Readonly<Record<string, unknown>>;
  const found: FieldError[] = [...unknownOptions(given, [...SHARED, ...own])];
  const { name, map, keyId, type } = given;
  const check = (path: string, right: boolean, message: string): void => {
    if (!right) found.push({ path, message });
  };
  check(
    "name",
    name === undefined || (typeof name === "string" && NAME.test(name)),
    "must be 1 to 32 letters, digits or -, the first a letter",
  );
  check("map", map === undefined || typeof map === "function", "must be a function");
  for (const [path, value] of Object.entries({ map, keyId, type })) check(path, !isAsync(value), NOT_ASYNC);
  const fixed = (value: unknown, is: (text: string) => boolean): boolean =>
    value === undefined || typeof value === "function" || (typeof value === "string" && is(value));
  check("keyId", fixed(keyId, isKeyId), "must be a key id or a function");
  check("type", fixed(type, isEventName), "must be an event type or a function");
  return found;
}

/** A problem unless `value` is a whole number from `least` to `most`, or left out. */
export function countProblems(path: string, value: unknown, least: number, most: number): readonly FieldError[] {
  if (value === undefined) return [];
  if (Number.isInteger(value) && (value as number) >= least && (value as number) <= most) return [];
  return [{ path, message: `must be a whole number from ${least} to ${most}` }];
}

/** A problem unless `value` is a text, or left out where it may be. */
export function textProblems(path: string, value: unknown, what: string, optional = false): readonly FieldError[] {
  if (value === undefined && optional) return [];
  return typeof value === "string" && value !== "" ? [] : [{ path, message: `must be ${what}` }];
}

/**
 * A problem unless `value` is the URL of an upstream, written out or named by `secretFrom`.
 * @param protocols such as `redis:`
 */
export function urlProblems(path: string, value: unknown, protocols: readonly string[]): readonly FieldError[] {
  const message = `must begin with ${protocols.map((one) => `${one}//`).join(" or ")}, or be secretFrom(…)`;
  const right = isSecretOption(value) && (typeof value !== "string" || protocols.includes(protocolOf(value)));
  return right ? [] : [{ path, message }];
}

/** @throws StartError 78 when the URL, which may have been a secret, is none of such a system */
export function checkedUrl(factory: string, url: string, protocols: readonly string[]): string {
  if (protocols.includes(protocolOf(url))) return url;
  throw new StartError(78, `${factory}: url must begin with ${protocols.map((one) => `${one}//`).join(" or ")}`);
}

const protocolOf = (url: string): string => (URL.canParse(url) ? new URL(url).protocol : "");

/** The message options with the source's name filled in. */
export const readingOf = ({ name, map, keyId, type }: MessageOptions, kind: string): Reading => ({
  name,
  map,
  keyId,
  type,
  source: name ?? kind,
});
