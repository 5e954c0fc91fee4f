/** The events of a group of messages, as one request to the store. */
import type { Publication } from "../../../core/ports/source.ts";
import type { Draft } from "./read.ts";

/** A message with its events. */
export interface Held<Message> {
  readonly message: Message;
  readonly drafts: readonly Draft[];
}

/** Joins the events of a group of messages into one request. */
export function publicationsOf(group: readonly Held<unknown>[]) {
  const publications: Publication[] = [];
  /** For each publication, the place of its message in the group. */
  const owners: number[] = [];
  const single = group.length === 1 && group[0]?.drafts.length === 1;
  for (const [owner, { drafts }] of group.entries()) {
    for (const draft of drafts) {
      publications.push({ ...draft, path: single ? "" : `[${publications.length}]` });
      owners.push(owner);
    }
  }
  return { publications, owners };
}
