/** `relay doctor`: the former name of `relay check --machine`, for one version more. */
import type { Command } from "../support/command.ts";
import { doctor } from "./check.ts";

export const commands: readonly Command[] = [doctor];
