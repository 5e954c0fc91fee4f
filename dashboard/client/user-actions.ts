/** Adds, changes and removes accounts. A password that the page makes is shown once. */
import { useState } from "preact/hooks";
import { ask, path } from "./api.ts";
import { Confirm } from "./confirm.ts";
import { Dialog, FormDialog } from "./dialog.ts";
import { el, part } from "./dom.ts";
import { Copy, notice, showToast, useAction } from "./elements.ts";
import { Field, Select, useTexts } from "./fields.ts";
import { onceKeeper } from "./once.ts";
import type { Account } from "./shapes.ts";

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

const PasswordOnce = part(({ username, password, close }: OnceProps) =>
  Dialog({
    title: `The password of ${username}`,
    close,
    children: [
      notice("warn", el.p(null, el.strong(null, "It is shown only this once."), " Hand it over in a safe way.")),
      el.div({ class: "secret" }, el.code({ class: "wrap" }, password), Copy({ text: password, what: "the password" })),
      el.div({ class: "row end" }, el.button({ type: "button", class: "main", onClick: close }, "Done")),
    ],
  }),
);

export const AddUser = part(({ close, done }: Pick<OneProps, "close" | "done">) => {
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
    if (password === "") show((shown) => PasswordOnce({ username: added, password: chosen, close: shown }));
    done();
  });
  return FormDialog({
    title: "Add a user",
    close,
    action,
    yes: "Add the user",
    children: [
      Field({ label: "Username", ...bind("username", action.error), focus: true }),
      Field({
        label: "API keys",
        ...bind("keys", action.error),
        optional: true,
        hint: "Their ids, with blanks between. Empty: every key, and the relay itself.",
      }),
      Select({ label: "May", ...bind("access"), options: ACCESS }),
      Field({
        label: "Password",
        ...bind("password", action.error),
        type: "password",
        autocomplete: "new-password",
        optional: true,
        hint: "12 characters or more. Empty: one is made, and shown once.",
      }),
    ],
  });
});

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

export const ResetUser = part(({ one, close, done }: OneProps) => {
  const { username, access, totp } = one;
  const [what, setWhat] = useState("access");
  const [next, setNext] = useState<string>(access === "read" ? "manage" : "read");
  const action = useAction(async (wanted) => {
    const show = onceKeeper();
    const password = freshPassword();
    const body = what === "access" ? { access: next } : what === "totp" ? { totp: false } : { password };
    await ask("POST", path("/auth/users/{}/reset", [username]), { body, wanted });
    showToast("The user is changed");
    if (what === "password") show((shown) => PasswordOnce({ username, password, close: shown }));
    done();
  });
  return FormDialog({
    title: `Change ${username}`,
    close,
    action,
    yes: "Change it",
    children: [
      Select({
        label: "Change",
        value: what,
        options: WHAT.filter(([name]) => totp || name !== "totp"),
        change: setWhat,
      }),
      what === "access" && Select({ label: "May", value: next, options: ACCESS, change: setNext }),
      what === "password" && el.p(null, "A new password is made, and shown once. The old one ends now."),
      what === "totp" && el.p(null, "A login then needs the password alone, until the user sets a new one up."),
      el.p({ class: "quiet" }, "All sessions of the user end."),
    ],
  });
});

export const RemoveUser = part(({ one: { username }, close, done }: OneProps) =>
  Confirm({
    title: `Remove ${username}?`,
    yes: "Remove the user",
    no: "Cancel",
    close,
    async act(wanted) {
      await ask("DELETE", path("/auth/users/{}", [username]), { wanted });
      showToast("The user is removed");
      done();
    },
    children: el.p(null, "The account is deleted and its sessions end. What it did stays in the audit."),
  }),
);
