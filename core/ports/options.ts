/** Judges a plug-in's options by a table of rules, without a library: config files load none. */
import { StartError } from "../model/errors.ts";
import type { FieldError } from "../model/problem.ts";
import { isSecretOption } from "../model/secret-option.ts";

/** Returns what is wrong with the value that stands at the path. */
export type Rule = (value: unknown, path: string) => readonly FieldError[];

export type Rules<Options> = { readonly [Name in keyof Options]-?: Rule };

/** Returns a problem for each option that a plug-in does not have, and one where the options are no object. */
export function unknownOptions(options: unknown, known: readonly string[]): readonly FieldError[] {
  if (typeof options !== "object" || options === null || Array.isArray(options))
    return [{ path: "", message: "the options must be an object" }];
  return Object.keys(options)
    .filter((path) => !known.includes(path))
    .map((path) => ({ path, message: "is not an option" }));
}

/** Returns a problem for each name without a rule, and one where the options are no object, then those of the values. */
export function optionProblems<Options>(options: unknown, rules: Rules<Options>): readonly FieldError[] {
  const given = options === undefined ? {} : options;
  return [...unknownOptions(given, Object.keys(rules)), ...inside(rules)(given, "")];
}

/** The rule of what has the message unless it is right. */
export const must =
  (message: string, right: (value: unknown) => boolean): Rule =>
  (value, path) =>
    right(value) ? [] : [{ path, message }];

export const optional =
  (rule: Rule): Rule =>
  (value, path) =>
    value === undefined ? [] : rule(value, path);

/** The rules of an object's fields; it may have others. */
export const inside =
  (rules: Readonly<Record<string, Rule>>): Rule =>
  (value, path) =>
    Object.entries(rules).flatMap(([name, rule]) =>
      rule((value as Readonly<Record<string, unknown>> | null)?.[name], path === "" ? name : `${path}.${name}`),
    );

export const anything: Rule = () => [];
export const noOption: Rule = must("is not an option", () => false);
export const flag: Rule = must("must be true or false", (value) => typeof value === "boolean");
export const secret: Rule = must("must be text, or secretFrom(…)", isSecretOption);

const isText = (value: unknown, pattern: RegExp): boolean => typeof value === "string" && pattern.test(value);

/** @param what it must be, for people: `the name of a queue` */
export const text = (what: string, pattern = /./s): Rule => must(`must be ${what}`, (value) => isText(value, pattern));

/** @param alone whether a text may stand in place of a list of one */
export const texts = (what: string, pattern: RegExp, alone = false): Rule =>
  must(`must be ${what}`, (value) => {
    const list: unknown = alone && typeof value === "string" ? [value] : value;
    return Array.isArray(list) && list.length > 0 && list.every((one) => isText(one, pattern));
  });

export const choice = (...values: readonly string[]): Rule =>
  must(`must be ${values.map((one) => `"${one}"`).join(" or ")}`, (value) => (values as unknown[]).includes(value));

export const whole = (least: number, most = Number.MAX_SAFE_INTEGER): Rule =>
  must(
    `must be a whole number${most === Number.MAX_SAFE_INTEGER ? `, ${least} or more` : ` from ${least} to ${most}`}`,
    (value) => Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most,
  );

/**
 * The URL of a server, which may hold a password: so it may be named by `secretFrom`, and no message shows it.
 * @param protocols such as `redis:`
 */
export const secretUrl = (protocols: readonly string[], hosted = false): Rule =>
  must(
    `${begins(protocols)}, or be secretFrom(…)`,
    (value) => isSecretOption(value) && (typeof value !== "string" || isUrl(value, protocols, hosted)),
  );

/** @throws StartError 78 when the URL, which may have been a secret, is none of such a server */
export function checkedUrl(factory: string, url: string, protocols: readonly string[], hosted = false): string {
  if (isUrl(url, protocols, hosted)) return url;
  throw new StartError(78, `${factory}(): url ${begins(protocols)}`);
}

const begins = (protocols: readonly string[]): string =>
  `must begin with ${protocols.map((one) => `${one}//`).join(" or ")}`;

function isUrl(given: string, protocols: readonly string[], hosted: boolean): boolean {
  const url = URL.parse(given);
  return url !== null && protocols.includes(url.protocol) && !(hosted && url.hostname === "");
}
