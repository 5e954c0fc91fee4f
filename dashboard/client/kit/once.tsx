/**
 * Keeps what is shown only once, such as a secret, above all views until it is closed: the answer that brings it may come
 * when the view that asked for it has been left.
 */
import type { VNode } from "preact";
import { cell, useCell } from "../state/cell.ts";
import { session } from "../state/session.ts";

/** Draws a dialog. `close` forgets what it shows. */
type Draw = (close: () => void) => VNode;

interface Kept {
  readonly turn: number;
  readonly who: string | undefined;
  readonly draw: Draw;
}

const kept = cell<readonly Kept[]>([]);
let turns = 0;

/**
 * Call it before the request. What it returns shows the answer, and shows it to nobody but the person who has asked: not
 * after a logout, nor to another person who has logged in meanwhile.
 */
export function onceKeeper(): (draw: Draw) => void {
  const { now: then } = session;
  return (draw) => {
    const { now } = session;
    if (then.kind !== "open" || now.kind !== "open" || then.who !== now.who) return;
    kept.set([...kept.now, { turn: ++turns, who: now.who, draw }]);
  };
}

session.watch((now) => kept.set(kept.now.filter(({ who }) => now.kind === "open" && who === now.who)));

/** Shows one after another. */
export const ShownOnce = () => {
  const [first] = useCell(kept);
  if (first === undefined) return null;
  const close = (): void => kept.set(kept.now.filter((one) => one !== first));
  return <Drawn key={first.turn} draw={first.draw} close={close} />;
};

const Drawn = ({ draw, close }: { readonly draw: Draw; readonly close: () => void }) => draw(close);
