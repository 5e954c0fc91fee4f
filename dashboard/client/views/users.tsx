/** Lists the accounts of the relay, for those who own every key: who may do what, and with how many factors. */
import { useState } from "preact/hooks";
import { ApiRefusal, ask } from "../state/api.ts";
import { badge, empty, notice, PageFrame, problem, skeleton, TimeSwitch, When } from "../kit/elements.tsx";
import { useLoad } from "../state/load.ts";
import { table } from "../kit/data-table.tsx";
import { may } from "../state/may.ts";
import { token } from "../state/token.ts";
import type { Account } from "../shapes.ts";
import { AddUser, RemoveUser, ResetUser } from "../forms/user-actions.tsx";

type Doing = "add" | { readonly what: "change" | "remove"; readonly one: Account };

export const Users = () => {
  const [doing, setDoing] = useState<Doing | undefined>(undefined);
  const { data, error, again } = useLoad((signal) => ask<readonly Account[]>("GET", "/auth/users", { signal }), []);
  const close = (): void => setDoing(undefined);
  const done = (): void => {
    close();
    again();
  };
  const rows = data?.data ?? [];
  return (
    <PageFrame
      title="Users"
      actions={
        data !== undefined && [
          <TimeSwitch />,
          may("change") && (
            <button type="button" class="main" onClick={() => setDoing("add")}>
              Add a user
            </button>
          ),
        ]
      }
    >
      {error instanceof ApiRefusal && error.code === "STEP_UP_REQUIRED"
        ? notice(
            "info",
            <p>The list of users is shown after a fresh code of your second factor.</p>,
            <button type="button" onClick={again}>
              Confirm that it is you
            </button>,
          )
        : (problem(error, again) ?? (data === undefined && skeleton()))}
      {data !== undefined && rows.length === 0 && empty("No user yet", "Each user logs in with a name and a password.")}
      {rows.length > 0 &&
        table(
          "Users",
          ["User", "API keys", "May", "Second factor", "Created", "Last login", "Change"],
          rows.map((one) => ({
            key: one.username,
            cells: [
              <span class="wrap">
                {one.username}
                {isMe(one) && <small>you</small>}
              </span>,
              one.keys[0] === "*" ? (
                "every key"
              ) : (
                <span class="names">
                  {one.keys.map((id) => (
                    <code key={id}>{id}</code>
                  ))}
                </span>
              ),
              one.access === "read" ? "look only" : "manage",
              one.totp ? badge("on") : badge("off"),
              <When at={one.createdAt} />,
              one.lastLoginAt === undefined ? "never" : <When at={one.lastLoginAt} />,
              may("change") && <Actions one={one} act={(what) => setDoing({ what, one })} />,
            ],
          })),
        )}
      {doing === "add" && <AddUser close={close} done={done} />}
      {typeof doing === "object" && doing.what === "change" && <ResetUser one={doing.one} close={close} done={done} />}
      {typeof doing === "object" && doing.what === "remove" && <RemoveUser one={doing.one} close={close} done={done} />}
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
      <button type="button" class="small" aria-label={`Change ${one.username}`} onClick={() => act("change")}>
        Change…
      </button>
      <button type="button" class="small danger" aria-label={`Remove ${one.username}`} onClick={() => act("remove")}>
        Remove…
      </button>
    </span>
  );
