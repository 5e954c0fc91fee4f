/**
 * One change of a commit. `if` makes it conditional: `null` requires that the key is absent, a text that the value is
 * exactly that text. `check` tests the condition and changes nothing.
 */
export type Change =
  | { readonly op: "put"; readonly key: string; readonly value: string; readonly if?: string | null }
  | { readonly op: "delete"; readonly key: string; readonly if?: string }
  | { readonly op: "check"; readonly key: string; readonly if: string | null };
