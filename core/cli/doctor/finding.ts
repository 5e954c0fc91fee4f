/** What a check of `relay doctor` found, and what to do about it. */
import { EX_CONFIG, EX_OK, EX_UNAVAILABLE } from "../support/exit.ts";

export interface DoctorFinding {
  /** What was looked at, in one or two words. */
  readonly check: string;
  readonly state: "good" | "warn" | "bad";
  readonly found: string;
  /** For a person to do; absent when all is well. */
  readonly todo?: string;
  /** Of a bad one: whether it is set up wrongly here, or something outside does not answer. @default "here" */
  readonly where?: "here" | "outside";
}

export const good = (check: string, found: string): DoctorFinding => ({ check, state: "good", found });
export const warn = (check: string, found: string, todo: string): DoctorFinding => ({
  check,
  state: "warn",
  found,
  todo,
});
export const bad = (
  check: string,
  found: string,
  todo: string,
  where: DoctorFinding["where"] = "here",
): DoctorFinding => ({
  check,
  state: "bad",
  found,
  todo,
  where,
});

/** 0 when nothing is bad; 78 when something is wrong here, else 69. Warnings do not count. */
export function exitCode(findings: readonly DoctorFinding[]): number {
  const wrong = findings.filter(({ state }) => state === "bad");
  if (wrong.length === 0) return EX_OK;
  return wrong.some(({ where }) => where !== "outside") ? EX_CONFIG : EX_UNAVAILABLE;
}

/** The bare code or message of something that was thrown. */
export const reasonOf = (error: unknown): string =>
  error instanceof Error ? ((error as NodeJS.ErrnoException).code ?? error.message) : String(error);
