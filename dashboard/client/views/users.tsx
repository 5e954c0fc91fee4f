/** Lists the accounts of the relay, for those who own every key: who may do what, and with how many factors. */
import { useState } from "preact/hooks";
import { ApiRefusal, ask, path } from "../state/api.ts";
import { badge, Button, codes, empty, notice, PageFrame, showToast, TimeSwitch, When } from "../kit/elements.tsx";
import { useAsk } from "../state/load.ts";
import { ListView } from "../kit/list.tsx";
import { may, token } from "../state/token.ts";
import type { Account } from "../shapes.ts";
import { Confirm, FormDialog } from "../kit/dialog.tsx";
import { Field, Select, useForm } from "../kit/fields.tsx";
import { onceKeeper, PasswordOnce } from "../kit/once.tsx";

type Doing = { readonly what: "add" } | { readonly what: "change" | "remove"; readonly one: Account };

export const Users = () => {
  const [doing, setDoing] = useState<Doing | undefined>(undefined);
  const load = useAsk<readonly Account[]>("/auth/users");
  const { data, error, again } = load;
  const close = (): void => setDoing(undefined);
  const done = (): void => {
    close();
    again();
  };
  const add = may("change") && <Button text="Add a user" class="main" act={() => setDoing({ what: "add" })} />;
  return (
    <PageFrame title="Users" actions={data !== undefined && [<TimeSwitch />, add]}>
      {error instanceof ApiRefusal && error.code === "STEP_UP_REQUIRED" ? (
        notice(
          "info",
          <p>The list of users is shown after a fresh code of your second factor.</p>,
          <Button text="Confirm that it is you" act={again} />,
        )
      ) : (
        <ListView
          name="Users"
          load={load}
          keyOf={({ username }) => username}
          columns={{
            User: (one) => (
              <span class="wrap">
                {one.username}
                {isMe(one) && <small>you</small>}
              </span>
            ),
            "API keys": ({ keys }) => (keys[0] === "*" ? "every key" : codes(keys)),
            May: ({ access }) => (access === "read" ? "look only" : "manage"),
            "Second factor": ({ totp }) => badge(totp ? "on" : "off"),
            Created: ({ createdAt }) => <When at={createdAt} />,
            "Last login": ({ lastLoginAt: at }) => (at === undefined ? "never" : <When at={at} />),
            Change: (one) => may("change") && <Actions one={one} act={(what) => setDoing({ what, one })} />,
          }}
          empty={empty("No user yet", "Each user logs in with a name and a password.")}
        />
      )}
      {doing?.what === "add" && <AddUser close={close} done={done} />}
      {doing?.what === "change" && <ResetUser one={doing.one} close={close} done={done} />}
      {doing?.what === "remove" && <RemoveUser one={doing.one} close={close} done={done} />}
    </PageFrame>
  );
};

const isMe = ({ username }: Account): boolean => username === token.now?.sub;

interface ActionsProps {
  readonly one: Account;
  readonly act: (what: "change" | "remove") => void;
}

/** One's own account is changed on the account's page, so that nobody locks themselves out here. */
const Actions = ({ one, act }: ActionsProps) =>
  isMe(one) ? (
    <span class="quiet">–</span>
  ) : (
    <span class="row">
      <Button text="Change…" class="small" label={`Change ${one.username}`} act={() => act("change")} />
      <Button text="Remove…" class="small danger" label={`Remove ${one.username}`} act={() => act("remove")} />
    </span>
  );

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

interface DoneProps {
  readonly close: () => void;
  readonly done: () => void;
}

const AddUser = ({ close, done }: DoneProps) => {
  const first = { username: "", keys: "", access: "manage", password: "" };
  const form = useForm(first, async ({ username, keys, access, password }, wanted) => {
    const show = onceKeeper();
    const ids = keys.split(/[\s,]+/).filter(Boolean);
    const chosen = password || freshPassword();
    const body = { username, password: chosen, keys: ids.length === 0 ? ["*"] : ids, access };
    const { data } = await ask<{ readonly username: string }>("POST", "/auth/users", { body, wanted });
    showToast("The user is added");
    if (password === "") show((shown) => <PasswordOnce username={data.username} password={chosen} close={shown} />);
    done();
  });
  return (
    <FormDialog title="Add a user" close={close} form={form} yes="Add the user">
      <Field {...form.of("username", "Username")} focus />
      <Field
        {...form.of("keys", "API keys")}
        optional
        hint="Their ids, with blanks between. Empty: every key, and the relay itself."
      />
      <Select {...form.of("access", "May")} options={ACCESS} />
      <Field
        {...form.of("password", "Password")}
        type="password"
        autocomplete="new-password"
        optional
        hint="12 characters or more. Empty: one is made, and shown once."
      />
    </FormDialog>
  );
};

interface UserProps extends DoneProps {
  readonly one: Account;
}

const CHANGES = [
  ["access", "What the user may do"],
  ["password", "A new password"],
  ["totp", "Take the second factor off"],
] as const;

const ResetUser = ({ one: { username, access, totp }, close, done }: UserProps) => {
  const first = { what: "access", next: access === "read" ? "manage" : "read" };
  const form = useForm(first, async ({ what, next }, wanted) => {
    const show = onceKeeper();
    const password = freshPassword();
    const body = what === "access" ? { access: next } : what === "totp" ? { totp: false } : { password };
    await ask("POST", path("/auth/users/{}/reset", [username]), { body, wanted });
    showToast("The user is changed");
    if (what === "password") show((shown) => <PasswordOnce username={username} password={password} close={shown} />);
    done();
  });
  const { what } = form.texts;
  return (
    <FormDialog title={`Change ${username}`} close={close} form={form} yes="Change it">
      <Select {...form.of("what", "Change")} options={CHANGES.filter(([name]) => totp || name !== "totp")} />
      {what === "access" && <Select {...form.of("next", "May")} options={ACCESS} />}
      {what === "password" && <p>A new password is made, and shown once. The old one ends now.</p>}
      {what === "totp" && <p>A login then needs the password alone, until the user sets a new one up.</p>}
      <p class="quiet">All sessions of the user end.</p>
    </FormDialog>
  );
};

const RemoveUser = ({ one: { username }, close, done }: UserProps) => (
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
