/** What reads, sends again and removes what was stored, composed. */
import { createAttemptHistory, type AttemptHistory } from "../../history/attempts.ts";
import { createHistory } from "../../history/events.ts";
import { createReplay, type Replay } from "../../replay/replay.ts";
import { createReplayJob } from "../../replay/replay-job.ts";
import { createRetention } from "../../retention/retention.ts";
import { RECIPIENTS } from "./fanout.ts";
import * as path from "./delivery-path.ts";
import { countedReplay } from "../log-replays.ts";
import { token, type Get, type Container } from "./container.ts";

export const ATTEMPT_HISTORY = token<AttemptHistory>("attempts");

const base = (get: Get) => ({
  storage: get(path.STORAGE),
  clock: get(path.CLOCK_TOKEN),
  directory: get(path.SUBSCRIPTION_CACHE),
  recipients: get(RECIPIENTS),
});

const replay = (get: Get, by: "api" | "job"): Replay => countedReplay(createReplay(base(get)), get(path.METRICS), by);

export function registerReplay(house: Container): void {
  house.make(path.HISTORY, (get) => createHistory(base(get)));
  house.make(ATTEMPT_HISTORY, (get) => createAttemptHistory(base(get)));
  house.make(path.REPLAY, (get) => replay(get, "api"));
  house.make(path.REPLAY_JOB, (get) => createReplayJob({ ...base(get), replay: replay(get, "job") }));
  house.make(path.RETENTION, (get) =>
    createRetention({
      ...base(get),
      metrics: get(path.METRICS),
      rules: (get(path.PLAN).jobs ?? []).filter((job) => job.name === "retention"),
    }),
  );
}
