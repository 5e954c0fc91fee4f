/** Shows a secret once: it is nowhere else in clear text, and gone when this is closed. */
import { useState } from "preact/hooks";
import { Dialog } from "./dialog.tsx";
import { moment } from "../state/format.ts";
import { nameOf } from "../state/api-keys.ts";
import { Copy, notice } from "./elements.tsx";
import { onceKeeper } from "./once.tsx";
import type { Secreted } from "../shapes.ts";
import { VerifyCode } from "./verify-code.tsx";

/** Call it before the request that makes a secret. What it returns shows the secret, wherever the user is by then. */
export function secretKeeper(): (made: Secreted) => void {
  const show = onceKeeper();
  return (made) => show((close) => <SecretOnce made={made} close={close} />);
}

const SecretOnce = ({ made, close }: { readonly made: Secreted; readonly close: () => void }) => {
  const [kept, setKept] = useState(false);
  const { previousSecretExpiresAt: until, warnings = [] } = made;
  return (
    <Dialog title="Keep this secret now" wide>
      {notice(
        "warn",
        <p>
          <strong>It is shown only this once.</strong> The relay keeps it encrypted and never shows it again. If it is
          lost, rotate it.
        </p>,
      )}
      <p>
        Receivers verify with it that a delivery to <strong>{nameOf(made)}</strong> comes from this relay.
      </p>
      <div class="secret">
        <code class="wrap">{made.secret}</code>
        <Copy text={made.secret} what="the secret" />
      </div>
      <VerifyCode />
      {until !== undefined && (
        <p>
          {until === null
            ? "The old secret no longer signs."
            : `The old secret also signs until ${moment(until)}: install the new one before then.`}
        </p>
      )}
      {warnings.length > 0 && notice("warn", ...warnings.map((text) => <p key={text}>{`${text}.`}</p>))}
      <label class="check">
        <input type="checkbox" checked={kept} onChange={() => setKept(!kept)} />
        I have stored it in a safe place
      </label>
      <div class="row end">
        <button type="button" class="main" disabled={!kept} onClick={close}>
          Done
        </button>
      </div>
    </Dialog>
  );
};
