/** Options of plug-ins that are secret: written out, or named by where to read them. */

/** Where a secret is read at the start: a variable of the environment, or a file. */
export interface SecretFrom {
  readonly secretFrom: { readonly env: string } | { readonly file: string };
}

/** A secret as the config gives it. `PluginContext.secret` reads it. */
export type SecretOption = string | SecretFrom;

/**
 * Names where a secret is, so that the config does not hold it: `secretFrom({ env: "PG_URL" })` or `secretFrom({ file })`.
 * It may stand wherever an option is secret. Nothing is read before the start; what is missing then is a problem of the
 * config. Where `PG_URL` is not set, the file that `PG_URL_FILE` names is read. A relative file starts from the config's
 * folder. A last line break is cut.
 */
export const secretFrom = (where: { readonly env: string } | { readonly file: string }): SecretFrom => ({
  secretFrom: where,
});

/** Returns whether an option is a secret that can be read: text that is not empty, or what `secretFrom` returns. */
export function isSecretOption(value: unknown): value is SecretOption {
  if (typeof value === "string") return value !== "";
  if (typeof value !== "object" || value === null) return false;
  const { secretFrom: where, ...rest } = value as Readonly<Record<string, unknown>>;
  if (typeof where !== "object" || where === null || Object.keys(rest).length > 0) return false;
  const [[kind, name] = [], ...more] = Object.entries(where);
  return more.length === 0 && (kind === "env" || kind === "file") && typeof name === "string" && name !== "";
}
