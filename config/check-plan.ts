/** Checks of single values of the config. One check a value, so that a wrong value is one problem with one message. */
import { readFileSync } from "node:fs";
import { BlockList, isIP } from "node:net";
import { isAbsolute, resolve } from "node:path";
import { z } from "zod";
import { isPluginName } from "../core/model/names.ts";
import { unreadable } from "../core/lib/reason.ts";
import { didYouMean } from "./problems.ts";

export const YEARS_MS = 100 * 365 * 86_400_000;

const between =
  (is: (value: unknown) => boolean, what: string) =>
  (min: number, max: number): z.ZodType<number> =>
    z.custom<number>(
      (value) => is(value) && (value as number) >= min && (value as number) <= max,
      `must be a ${what} from ${min} to ${max}`,
    );
export const number = between((value) => typeof value === "number", "number");
export const whole = between(Number.isSafeInteger, "whole number");
export const ms = between(Number.isSafeInteger, "whole number of milliseconds");
export const textValue = z.custom<string>(
  (value) => typeof value === "string" && value.trim() !== "" && !value.includes("\0"),
  "must be text, not empty",
);
/** Returns whether a server can listen on it: an address or a host name, without spaces around it. */
export const isHost = (value: unknown): value is string =>
  typeof value === "string" &&
  (isIP(value) !== 0 || /^(?!-)[A-Za-z0-9-]{1,63}(?:\.(?!-)[A-Za-z0-9-]{1,63})*$/.test(value));
export const HOST_RULE = "must be an address or a host name, such as 0.0.0.0, without spaces around it";
export const host = z.custom<string>(isHost, HOST_RULE);
export const isToken = (value: unknown): value is string =>
  typeof value === "string" && /^[\x21-\x7e]{1,4096}$/.test(value);
export const tokenValue = z.custom<string>(isToken, "must be visible ASCII text without spaces, not empty");
export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "silent"] as const;
export const flag = z.custom<boolean>((value) => typeof value === "boolean", "must be true or false");
export const list = <T>(item: z.ZodType<T>): z.ZodType<T[]> => z.array(item, { error: "must be a list: [ … ]" });
export const choiceValue = <T extends string>(...values: readonly T[]): z.ZodType<T> =>
  z.custom<T>((value) => (values as readonly unknown[]).includes(value), `must be one of: ${values.join(", ")}`);

/** Returns whether its keys are all that it holds: a promise or a Map would count as left out. */
export const isKeyed = (value: unknown): value is object =>
  /^\[object (?:Object|Module)\]$/.test(Object.prototype.toString.call(value));

/** An object with these keys and no others. Each unknown key is a problem of its own, with the name that was meant. */
export const section = <Shape extends z.ZodRawShape>(shape: Shape): z.ZodType<z.output<z.ZodObject<Shape>>> => {
  const names = Object.keys(shape);
  const unknown = (issue: { readonly path?: readonly PropertyKey[] | undefined }): string => {
    const key = String(issue.path?.at(-1) ?? "");
    return `is unknown${didYouMean(key, names) || (names.length <= 8 ? ` (there are: ${names.join(", ")})` : "")}`;
  };
  const known = z
    .object(shape, { error: "must be an object: { … }" })
    .catchall(z.custom<never>(() => false, { error: unknown }));
  return z.preprocess((value) => (isKeyed(value) ? value : null), known) as unknown as z.ZodType<
    z.output<z.ZodObject<Shape>>
  >;
};

type Optional<Shape extends z.ZodRawShape> = { [Name in keyof Shape]: z.ZodOptional<Shape[Name]> };
/** A section whose keys may all be left out. */
export const options = <Shape extends z.ZodRawShape>(shape: Shape) =>
  section(
    Object.fromEntries(
      Object.entries(shape).map(([name, one]) => [name, z.optional(one)]),
    ) as unknown as Optional<Shape>,
  );

export const plugin = <T>(kind: string, example: string): z.ZodType<T> =>
  z
    .custom<T>(
      (value) => isPlugin(value, kind),
      `must be ${/^[aeiou]/.test(kind) ? "an" : "a"} ${kind} plug-in, such as ${example}`,
    )
    .superRefine((value, ctx) => {
      const { name, problems = [] } = value as { name: string; problems?: { path: string; message: string }[] };
      for (const problem of problems) {
        const { path, message } = problem ?? {};
        if (typeof path === "string" && typeof message === "string") refuse(ctx, message, ...pathParts(path));
        else refuse(ctx, `of the plug-in ${name} has problems that are no { path, message }`);
      }
    });

/** `tokens[0].keys` → `["tokens", 0, "keys"]`; a name that is no word stands in quotes: `hosts["a.example"]` */
const pathParts = (path: string): PropertyKey[] =>
  [...path.matchAll(/\["([^"]*)"\]|[^.[\]]+/g)].map(
    ([part, quoted]) => quoted ?? (/^\d+$/.test(part) ? Number(part) : part),
  );

function isPlugin(value: unknown, kind: string): boolean {
  if (typeof value !== "object" || value === null) return false;
  const { kind: given, name, setup, problems, warnings, fileProblems, inspect } = value as Record<string, unknown>;
  if (given !== kind || !isPluginName(name) || typeof setup !== "function") return false;
  if (problems !== undefined && !Array.isArray(problems)) return false;
  return [warnings, fileProblems, inspect].every((one) => one === undefined || typeof one === "function");
}

/** An address or CIDR, as `BlockList` would take it. */
export function isNetwork(value: unknown): boolean {
  if (typeof value !== "string") return false;
  const [address = "", bits, ...more] = value.split("/");
  const family = isIP(address);
  if (family === 0 || more.length > 0) return false;
  if (bits === undefined) return true;
  if (!/^\d{1,3}$/.test(bits) || Number(bits) > (family === 4 ? 32 : 128)) return false;
  new BlockList().addSubnet(address, Number(bits), family === 4 ? "ipv4" : "ipv6");
  return true;
}

export function isUpstream(value: unknown): boolean {
  if (typeof value !== "string" || !URL.canParse(value)) return false;
  const { protocol, username, password, search, hash } = new URL(value);
  return ["http:", "https:"].includes(protocol) && username + password + search + hash === "";
}

/** A PEM file that can be read, as its absolute path. */
export const pem = (dir: string, what: RegExp, named: string): z.ZodType<string, unknown> =>
  textValue.transform((given, ctx) => {
    const file = isAbsolute(given) ? given : resolve(dir, given);
    try {
      if (what.test(readFileSync(file, "utf8"))) return file;
      refuse(ctx, `is no PEM file with ${named}`);
    } catch (error) {
      refuse(ctx, unreadable(error, file));
    }
    return z.NEVER;
  });

/** The schema, or `false` for "not at all". Problems inside keep their paths. */
export const orFalse = <T>(schema: z.ZodType<T>): z.ZodType<T | false> =>
  z.unknown().transform((value, ctx): T | false => {
    if (value === false) return false;
    const result = schema.safeParse(value);
    if (result.success) return result.data;
    pass(result.error, ctx, []);
    return z.NEVER;
  });

/** Adds a problem. */
export const refuse = (ctx: z.core.$RefinementCtx, message: string, ...path: PropertyKey[]): void =>
  ctx.addIssue({ code: "custom", path, message });

/** Adds the problems of an inner schema to the outer one. */
export function pass(error: z.ZodError, ctx: z.core.$RefinementCtx, path: readonly PropertyKey[]): void {
  for (const issue of error.issues) refuse(ctx, issue.message, ...path, ...issue.path);
}
