/**
 * Shows what is shown only once, such as a secret, above all views until it is closed: the answer that brings it may come
 * when the view that asked for it has been left.
 */
import type { ComponentChildren, VNode } from "preact";
import { useState } from "preact/hooks";
import { nameOf } from "../state/api-keys.ts";
import { cell, useCell } from "../state/cell.ts";
import { Dialog } from "./dialog.tsx";
import { moment } from "../state/format.ts";
import { Button, Kept, notice } from "./elements.tsx";
import { session } from "../state/session.ts";
import type { Secreted } from "../shapes.ts";
import { VerifyCode } from "./verify-code.tsx";

/** Draws a dialog. `close` forgets what it shows. */
type Draw = (close: () => void) => VNode;

interface Pending {
  readonly turn: number;
  readonly who: string | undefined;
  readonly draw: Draw;
}

const kept = cell<readonly Pending[]>([]);
let turns = 0;

/** Call it before the request. Its result shows the answer only to the person who has asked. */
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

interface PasswordProps {
  readonly username: string;
  readonly password: string;
  readonly close: () => void;
}

export const PasswordOnce = ({ username, password, close }: PasswordProps) => (
  <Dialog title={`The password of ${username}`} close={close}>
    {onlyOnce("Hand it over in a safe way.")}
    <Kept text={password} what="the password" />
    <div class="row end">
      <Button text="Done" class="main" act={close} />
    </div>
  </Dialog>
);

const onlyOnce = (more: ComponentChildren): VNode =>
  notice(
    "warn",
    <p>
      <strong>It is shown only this once.</strong> {more}
    </p>,
  );

/** Call it before the request that makes a secret. What it returns shows the secret, wherever the user is by then. */
export function secretKeeper(): (made: Secreted) => void {
  const show = onceKeeper();
  return (made) => show((close) => <SecretOnce made={made} close={close} />);
}

const SecretOnce = ({ made, close }: { readonly made: Secreted; readonly close: () => void }) => {
  const [stored, setStored] = useState(false);
  const { previousSecretExpiresAt: until, warnings = [] } = made;
  return (
    <Dialog title="Keep this secret now" wide>
      {onlyOnce("The relay keeps it encrypted and never shows it again. If it is lost, rotate it.")}
      <p>
        Receivers verify with it that a delivery to <strong>{nameOf(made)}</strong> comes from this relay.
      </p>
      <Kept text={made.secret} what="the secret" />
      <VerifyCode />
      {until === null && <p>The old secret no longer signs.</p>}
      {typeof until === "string" && (
        <p>{`The old secret also signs until ${moment(until)}: install the new one before then.`}</p>
      )}
      {warnings.length > 0 && notice("warn", ...warnings.map((text) => <p key={text}>{`${text}.`}</p>))}
      <label class="check">
        <input type="checkbox" checked={stored} onChange={() => setStored(!stored)} />
        I have stored it in a safe place
      </label>
      <div class="row end">
        <Button text="Done" class="main" off={!stored} act={close} />
      </div>
    </Dialog>
  );
};
