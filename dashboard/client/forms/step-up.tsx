/** The dialog for a second factor, when the API asks for a fresh one. */
import { useEffect, useState } from "preact/hooks";
import { useCell } from "../state/cell.ts";
import { Dialog, FormDialog } from "../kit/dialog.tsx";
import { CODE, Field } from "../kit/fields.tsx";
import { useAction } from "../kit/elements.tsx";
import { hasAccounts } from "../state/page-facts.ts";
import { go, place } from "../state/route.ts";
import { stepping, stepUp } from "../state/session.ts";
import { holderOf, readToken, token } from "../state/token.ts";

export const StepUp = () => {
  const done = useCell(stepping);
  return done === undefined ? null : <Ask done={done} />;
};

const Ask = ({ done }: { readonly done: (went: boolean) => void }) => {
  const [code, setCode] = useState("");
  const action = useAction(async () => {
    if (hasAccounts) await stepUp(code.trim());
    else {
      const read = readToken(code.trim());
      if (read === undefined) throw new Error("This is not a token.");
      if (holderOf(read) !== holderOf(token.now)) throw new Error("This is the token of somebody else.");
      token.set(read);
    }
    // This one may have been closed, and another request may be asking by now: a fresh token answers that too.
    stepping.now?.(true);
  });
  const enrolled = token.now?.amr.includes("mfa") === true;
  const close = (): void => done(false);
  // Who goes elsewhere has given up what asked for it.
  useEffect(() => place.watch(() => stepping.now?.(false)), []);
  if (hasAccounts && !enrolled) {
    return (
      <Dialog title="A second factor is needed" close={close}>
        <p>This can only be done with a second factor, and your account has none yet.</p>
        <div class="row end">
          <button type="button" onClick={close}>
            Not now
          </button>
          <button
            type="button"
            class="main"
            autoFocus
            onClick={() => {
              close();
              go(["account"]);
            }}
          >
            Set one up
          </button>
        </div>
      </Dialog>
    );
  }
  return (
    <FormDialog title="Confirm that it is you" close={close} action={action} yes="Confirm">
      <Field
        value={code}
        change={setCode}
        focus
        {...(hasAccounts
          ? {
              ...CODE,
              label: "Code of your second factor",
              hint: "Six digits from your authenticator app, or a recovery code. Each code works once.",
            }
          : {
              label: "A fresh access token",
              type: "password",
              hint: "This relay takes tokens from elsewhere: paste one that was issued with a second factor within the last minutes.",
            })}
      />
    </FormDialog>
  );
};
