import { describe, expect, it } from "vitest";
import type { ConfigError } from "../../../config/problems.ts";
import { resolvePlan } from "../../../config/validate.ts";
import { secretFrom } from "../../../core/model/secret-option.ts";
import { http } from "../../../plugins/source/http.ts";
import * as from from "../../../plugins/source/webhooks.ts";
import { testFolder } from "../../support/folder.ts";
import { webhooksBench } from "../../support/webhooks.ts";

const folder = testFolder();
const plan = (endpoints: unknown, env: Readonly<Record<string, string>> = {}) =>
  resolvePlan(
    { sources: [http(), from.webhooks(endpoints as never)] },
    { configDir: folder, cwd: folder, settings: {}, env },
  );

function problems(endpoints: unknown, env?: Readonly<Record<string, string>>): readonly string[] {
  try {
    plan(endpoints, env);
    return [];
  } catch (error) {
    return (error as ConfigError).problems.map(({ path, message }) => `${path} ${message}`);
  }
}
const pathsOf = (endpoints: unknown): readonly string[] =>
  problems(endpoints).map((one) => one.split(" ")[0] as string);

const right = { path: "/in/a", keyId: "key_1", verify: from.stripe({ secret: "whsec_0123456789abcdef" }) };

describe("the options of webhooks()", () => {
  it("may be any that the guide shows", () => {
    const secret = "0123456789abcdef";
    const general = { header: "x", secret, type: "a" };
    for (const verify of [
      from.github({ secret: [secret, secretFrom({ env: "X" })] }),
      from.standardWebhooks({ publicKey: `whpk_${Buffer.alloc(32).toString("base64")}` }),
      from.hmac({ ...general, timestamp: { field: "t=" }, separator: ",", algorithm: "sha512", encoding: "base64" }),
      from.hmac({
        ...general,
        signed: "{url}{header.x-id}{timestamp}{body}",
        url: "https://a.example",
        timestamp: "x-t",
      }),
      [from.addresses(["10.0.0.0/8"]), from.basic({ username: "a", password: secret, type: ["{body.a}", "b"] })],
      from.apiKey({ query: "code", key: secret, type: "{header.x}.{path.b}" }),
    ])
      expect(problems([{ ...right, path: "/in/{b}", verify }], { X: secret })).toEqual([]);
    expect(
      problems([{ ...right, cloudEvents: ["a.example"], verify: from.apiKey({ header: "k", key: secret }) }]),
    ).toEqual([]);
  });

  it("are named with every problem that they have", () => {
    const at = (path: string): string => `sources[1][0].${path}`;
    const verify = (one: unknown) => [{ ...right, verify: one }];
    const cases: readonly (readonly [unknown, readonly string[]])[] = [
      [undefined, ["sources[1]"]],
      [[], ["sources[1]"]],
      [
        [null, 7],
        ["sources[1][0]", "sources[1][1]"],
      ],
      [[{}], [at("path"), at("keyId"), at("verify")]],
      [
        [{ ...right, path: "/{a}", keyId: "é", type: "{what.x}", id: "fixed", headers: ["é"], timeoutMs: 1, extra: 1 }],
        [at("extra"), at("path"), at("keyId"), at("id"), at("type"), at("headers"), at("timeoutMs")],
      ],
      [[{ ...right, path: "/in/a/", keyId: "{body.a", cloudEvents: 1 }], [at("path"), at("keyId"), at("cloudEvents")]],
      [verify(from.stripe(undefined as never)), [at("verify.secret")]],
      [verify(from.stripe({ secret: "x", secert: "y" } as never)), [at("verify.secert")]],
      [verify([from.github({ secret: ["", 7] as never })]), [at("verify[0].secret[0]"), at("verify[0].secret[1]")]],
      [verify(from.square({ secret: "x" } as never)), [at("verify.url")]],
      [verify(from.hmac({ secret: "x", header: "y", signed: "{timestamp}" })), [at("verify.signed")]],
      [verify(from.hmac({} as never)), [at("verify.header"), at("verify.secret")]],
      [
        verify(from.hmac({ secret: "x", header: "y", signed: "{query}{body}", algorithm: "md5" as never })),
        [at("verify.signed"), at("verify.algorithm")],
      ],
      [verify({ ...from.addresses(["10.0.0.0/99"]), type: "a" }), [at("verify.addresses")]],
      [verify(from.apiKey({ header: "a", query: "b", key: "x", type: "a" })), [at("verify.header")]],
      [
        verify(from.basic({ username: "a:b", password: "x", type: "relay:a" })),
        [at("verify.type"), at("verify.username")],
      ],
    ];
    for (const [endpoints, paths] of cases) expect(pathsOf(endpoints)).toEqual(paths);
  });

  it("are named where two serve one path, and where a secret is missing", () => {
    expect(problems([right, right])).toEqual([expect.stringContaining("both serve POST /in/a")]);
    const verify = from.github({ secret: [secretFrom({ env: "GITHUB" }), secretFrom({ file: "none" })] });
    expect(problems([{ ...right, verify }])).toEqual([
      "sources[1][0].verify.secret[0] neither GITHUB nor GITHUB_FILE is set",
      "sources[1][0].verify.secret[1] none: the file cannot be read (ENOENT)",
    ]);
  });

  it("end the start where a secret that is read elsewhere is written in another way, without showing it", async () => {
    const verify = from.svix({ secret: secretFrom({ env: "SVIX" }) });
    const starting = webhooksBench([{ ...right, verify }], undefined, () => "not base64: é");
    await expect(starting).rejects.toMatchObject({
      exitCode: 78,
      message: "webhooks(): [0].verify.secret is no secret written in whsec",
    });
  });
});
