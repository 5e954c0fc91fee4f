/** Says what is wrong with a command line in the relay's words, with the fix: cac's own texts name no remedy. */
import { didYouMean } from "../../../config/problems.ts";
import { usage, type ExitError } from "./exit.ts";
import type { Command } from "./command.ts";

/**
 * The usage error that stands for an error of cac; the error itself when cac did not throw it.
 * @param name the command's words
 */
export function usageError(error: unknown, { usage: line, options = [] }: Command, name: string): unknown {
  if (!(error instanceof Error) || error.name !== "CACError") return error;
  const { message } = error;
  const quoted = [...message.matchAll(/`([^`]*)`/g)].map(([, text = ""]) => text.replaceAll("\u0001", ""));
  // cac joins the words of an option's name.
  const first = (quoted[0] ?? "").replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  const known = options.map(({ flags }) => flags.split(" ")[0] as string);
  if (message.startsWith("Unknown option")) return said(`${first} is no option of it${didYouMean(first, known)}`);
  if (message.startsWith("Unused args")) return said(`${quoted.join(" ")} is too much: the command is relay ${line}`);
  if (message.startsWith("missing required args")) return said(`an argument is missing: the command is relay ${line}`);
  return said(`${first.split(" ")[0]} needs a value`);

  function said(text: string): ExitError {
    return usage(`${text}\nSee relay ${name} --help`);
  }
}
