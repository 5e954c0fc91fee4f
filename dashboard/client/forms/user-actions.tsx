/** Adds, changes and removes accounts. A password that the page makes is shown once. */
import { useState } from "preact/hooks";
import { ask, path } from "../state/api.ts";
import { Confirm } from "../kit/confirm.tsx";
import { Dialog, FormDialog } from "../kit/dialog.tsx";
import { Copy, notice, showToast, useAction } from "../kit/elements.tsx";
import { Field, Select, useTexts } from "../kit/fields.tsx";
import { onceKeeper } from "../kit/once.tsx";
import type { Account } from "../shapes.ts";

const BYTES = 18;

/** As `relay users add` makes one: 144 random bits. */
function freshPassword(): string {
  const text = String.fromCharCode(...crypto.getRandomValues(new Uint8Array(BYTES)));
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_");
}

const ACCESS = [
  ["manage", "Manage"],
  ["read", "Look, and change nothing"],
] as const;

interface OnceProps {
  readonly username: string;
  readonly password: string;
  readonly close: () => void;
}

const PasswordOnce = ({ username, password, close }: OnceProps) => (
  <Dialog title={`The password of ${username}`} close={close}>
    {notice(
      "warn",
      <p>
        <strong>It is shown only this once.</strong> Hand it over in a safe way.
      </p>,
    )}
    <div class="secret">
      <code class="wrap">{password}</code>
      <Copy text={password} what="the password" />
    </div>
    <div class="row end">
      <button type="button" class="main" onClick={close}>
        Done
      </button>
    </div>
  </Dialog>
);

export const AddUser = ({ close, done }: Pick<OneProps, "close" | "done">) => {
  const [texts, bind] = useTexts({ username: "", keys: "", access: "manage", password: "" });
  const action = useAction(async (wanted) => {
    const show = onceKeeper();
    const { username, keys, access, password } = texts;
    const ids = keys.split(/[\s,]+/).filter(Boolean);
    const chosen = password || freshPassword();
    const body = { username, password: chosen, keys: ids.length === 0 ? ["*"] : ids, access };
    const { data } = await ask<{ readonly username: string }>("POST", "/auth/users", { body, wanted });
    showToast("The user is added");
    const { username: added } = data;
    if (password === "") show((shown) => <PasswordOnce username={added} password={chosen} close={shown} />);
    done();
  });
  return (
    <FormDialog title="Add a user" close={close} action={action} yes="Add the user">
      <Field label="Username" {...bind("username", action.error)} focus />
      <Field
        label="API keys"
        {...bind("keys", action.error)}
        optional
        hint="Their ids, with blanks between. Empty: every key, and the relay itself."
      />
      <Select label="May" {...bind("access")} options={ACCESS} />
      <Field
        label="Password"
        {...bind("password", action.error)}
        type="password"
        autocomplete="new-password"
        optional
        hint="12 characters or more. Empty: one is made, and shown once."
      />
    </FormDialog>
  );
};

interface OneProps {
  readonly one: Account;
  readonly close: () => void;
  readonly done: () => void;
}

const WHAT = [
  ["access", "What the user may do"],
  ["password", "A new password"],
  ["totp", "Take the second factor off"],
] as const;

export const ResetUser = ({ one, close, done }: OneProps) => {
  const { username, access, totp } = one;
  const [what, setWhat] = useState("access");
  const [next, setNext] = useState<string>(access === "read" ? "manage" : "read");
  const action = useAction(async (wanted) => {
    const show = onceKeeper();
    const password = freshPassword();
    const body = what === "access" ? { access: next } : what === "totp" ? { totp: false } : { password };
    await ask("POST", path("/auth/users/{}/reset", [username]), { body, wanted });
    showToast("The user is changed");
    if (what === "password") show((shown) => <PasswordOnce username={username} password={password} close={shown} />);
    done();
  });
  return (
    <FormDialog title={`Change ${username}`} close={close} action={action} yes="Change it">
      <Select label="Change" value={what} options={WHAT.filter(([name]) => totp || name !== "totp")} change={setWhat} />
      {what === "access" && <Select label="May" value={next} options={ACCESS} change={setNext} />}
      {what === "password" && <p>A new password is made, and shown once. The old one ends now.</p>}
      {what === "totp" && <p>A login then needs the password alone, until the user sets a new one up.</p>}
      <p class="quiet">All sessions of the user end.</p>
    </FormDialog>
  );
};

export const RemoveUser = ({ one: { username }, close, done }: OneProps) => (
  <Confirm
    title={`Remove ${username}?`}
    yes="Remove the user"
    no="Cancel"
    close={close}
    act={async (wanted) => {
      await ask("DELETE", path("/auth/users/{}", [username]), { wanted });
      showToast("The user is removed");
      done();
    }}
  >
    <p>The account is deleted and its sessions end. What it did stays in the audit.</p>
  </Confirm>
);
