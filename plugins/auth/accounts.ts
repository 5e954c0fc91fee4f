/** Authenticates with accounts of the relay's own: passwords and second factors. The default, as it needs nothing else. */
import { must, optional, optionProblems, whole } from "../../core/ports/options.ts";
import { own } from "../../core/ports/own-plugins.ts";
import type { AccountKeeper, Auth } from "../../core/ports/auth.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import { openUsers } from "./accounts/users.ts";

interface AccountsOptions {
  /** How long an access token lives, in milliseconds. @default 900_000 */
  readonly tokenMs?: number;
  /** How long a login lasts in all, in milliseconds. @default 43_200_000 */
  readonly sessionMs?: number;
  /** The only origin whose pages may refresh a login. @default the host that a request was sent to */
  readonly origin?: string;
}

const TOKEN_MS = 900_000;
const SESSION_MS = 43_200_000;

/**
 * The relay is its own issuer: Ed25519 tokens, whose key is at `/.well-known/jwks.json`. `relay token` makes tokens
 * with the same key offline. The first account is created with the code in `<dataDir>/setup-code`, or by `relay users
 * add`.
 */
export function accounts(options: AccountsOptions = {}): Plugin<"auth", Auth> & AccountKeeper {
  return own({
    kind: "auth",
    name: "accounts",
    problems: optionProblems<AccountsOptions>(options, {
      tokenMs: optional(whole(10_000, 86_400_000)),
      sessionMs: optional(whole(60_000, 2_592_000_000)),
      origin: optional(must('must be an origin, such as "https://relay.example.com"', isOrigin)),
    }),
    users: (ctx) => openUsers(ctx),
    async setup(ctx) {
      const { openAccounts } = await import("./accounts/open.ts");
      const { tokenMs = TOKEN_MS, sessionMs = SESSION_MS, origin } = options;
      const show = process.stderr.isTTY ? { show: (line: string) => void process.stderr.write(line) } : {};
      return openAccounts(ctx, { tokenMs, sessionMs, ...(origin === undefined ? {} : { origin }), ...show });
    },
  });
}

const isOrigin = (given: unknown): boolean => typeof given === "string" && URL.parse(given)?.origin === given;
