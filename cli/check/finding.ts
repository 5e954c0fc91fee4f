/** Defines the findings of `relay check --machine`: one for each place, with what to do about it. */
import { EX_CONFIG, EX_OK, EX_UNAVAILABLE } from "../support/exit.ts";
import { printable } from "../support/output.ts";
import { type CliEnvironment, paint } from "../support/environment.ts";

export interface Finding {
  /** Names the place, in one or two words. */
  readonly check: string;
  readonly state: "good" | "warn" | "bad";
  readonly found: string;
  /** For a person to do; absent when all is well. */
  readonly todo?: string;
  /** Of a bad one: it is set up wrongly here, or something outside does not answer. @default "here" */
  readonly where?: "here" | "outside";
}

type Where = Finding["where"];

export const good = (check: string, found: string): Finding => ({ check, state: "good", found });
export const warn = (check: string, found: string, todo: string): Finding => ({ check, state: "warn", found, todo });
export const bad = (check: string, found: string, todo: string, where: Where = "here"): Finding => ({
  check,
  state: "bad",
  found,
  todo,
  where,
});

/** 0 when nothing is bad; 78 when something is wrong here, else 69. Warnings do not count. */
export function exitCode(findings: readonly Finding[]): number {
  const wrong = findings.filter(({ state }) => state === "bad");
  if (wrong.length === 0) return EX_OK;
  return wrong.some(({ where }) => where !== "outside") ? EX_CONFIG : EX_UNAVAILABLE;
}

const MARKS = { good: ["green", "ok  "], warn: ["yellow", "warn"], bad: ["red", "BAD "] } as const;

/** Returns the finding for people; what is to be done stands in a second line. */
export function line({ check, state, found, todo }: Finding, { stdout }: CliEnvironment): string {
  const [style, mark] = MARKS[state];
  const more = todo === undefined ? "" : `\n${" ".repeat(18)}→ ${printable(todo)}`;
  return `${paint(stdout, style, mark)}  ${check.padEnd(12)}${printable(found)}${more}`;
}
