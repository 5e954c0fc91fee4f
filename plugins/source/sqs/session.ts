/** Sessions with SQS: each asks for the queue, and receives its messages until the service fails or the source stops. */
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Source } from "../../../core/ports/source.ts";
import { every } from "../../../core/lib/every.ts";
import { unlessAborted } from "../../../core/lib/within.ts";
import { awsClient, withCode, type AwsOptions } from "../../brokers/aws.ts";
import { connectedSource, watchBacklog, type SessionLife } from "../messages/connected.ts";
import { DeadLetters } from "../messages/dead-letters.ts";
import { Intake } from "../messages/intake.ts";
import type { MessageOptions, Reading } from "../messages/message.ts";
import { readSqs, sqsSettlement, type SqsLibrary, type SqsMessage } from "./messages.ts";

export interface FromSqsOptions extends MessageOptions, AwsOptions {
  /** The name of the queue, or its URL where it is another account's. It must exist: the relay makes none. */
  readonly queue: string;
  /** Most messages that are received and not settled. @default 1_000 */
  readonly maxInFlight?: number;
}

/** SQS holds an answer back for so long while the queue is empty, and gives no more messages at once. */
const WAIT_SECONDS = 20;
const MOST_AT_ONCE = 10;
/** Calls at once while the queue is full of messages; one else, since each call has its price. */
const MOST_CALLS = 8;

export function startSqs(ctx: PluginContext, options: FromSqsOptions & Reading, library: SqsLibrary): Source {
  const { clock } = ctx;
  const { source, queue, maxInFlight = 1_000 } = options;
  const client = new library.SQSClient(awsClient(ctx, source, { ...placeOf(queue), ...options }));
  const dead = new DeadLetters(ctx, source);
  const settlement = sqsSettlement(client, library, dead);
  const intake = new Intake<SqsMessage>(ctx, { reading: options, maxInFlight, upstream: settlement.upstream });

  async function session(life: SessionLife): Promise<void> {
    const { stopping, settled, over, ending, connected } = life;
    try {
      const url = await unlessAborted(stopping, urlOf(ending));
      if (url === undefined) return;
      const { visibilityMs } = await settlement.opened(url, stopping);
      connected();
      const watching = watchBacklog(clock, intake, ending, async () => ({
        count: (await settlement.look(url)).waiting,
      }));
      // Messages outlive the session that they came by: only the end of the source lets go of them.
      void every(clock, visibilityMs / 3, () => settlement.extend(visibilityMs), over);
      await take(url, visibilityMs, ending);
      await watching;
      await settled;
    } catch (error) {
      if (!stopping.aborted) throw withCode(error);
      await settled;
    }
  }

  async function urlOf(abortSignal: AbortSignal): Promise<string> {
    if (/^https?:/.test(queue)) return queue;
    const { QueueUrl = "" } = await client.send(new library.GetQueueUrlCommand({ QueueName: queue }), { abortSignal });
    return QueueUrl;
  }

  /** Keeps calls under way while there is room for what they bring. @throws what the first of them throws that fails */
  async function take(url: string, visibilityMs: number, ending: AbortSignal): Promise<void> {
    const underWay = new Set<Promise<void>>();
    let asked = 0;
    let isBusy = false;
    async function receive(most: number): Promise<void> {
      asked += most;
      try {
        const command = new library.ReceiveMessageCommand({
          QueueUrl: url,
          MaxNumberOfMessages: most,
          WaitTimeSeconds: WAIT_SECONDS,
          VisibilityTimeout: visibilityMs / 1_000,
          MessageAttributeNames: ["All"],
          MessageSystemAttributeNames: ["SentTimestamp", "ApproximateReceiveCount", "MessageGroupId"],
        });
        const { Messages: received = [] } = await client.send(command, { abortSignal: ending });
        isBusy = received.length === most;
        intake.offer(settlement.hold(received.map((one) => readSqs(one, url))));
      } finally {
        asked -= most;
      }
    }
    while (!ending.aborted) {
      const room = (await intake.room()) - asked;
      if (ending.aborted) return;
      if (room <= 0 || underWay.size >= (isBusy ? MOST_CALLS : 1)) {
        await unlessAborted(ending, Promise.race(underWay));
        continue;
      }
      const call = receive(Math.min(room, MOST_AT_ONCE));
      underWay.add(call);
      const ended = (): boolean => underWay.delete(call);
      call.then(ended, ended);
      // The race hears of a call that fails; this one only keeps the others quiet.
      call.catch(() => undefined);
    }
  }

  return connectedSource(intake, clock, session, { readiness: dead.readiness, close: () => client.destroy() });
}

/** Returns where the URL of a queue leads, which its name does not say. */
function placeOf(queue: string): Pick<AwsOptions, "endpoint" | "region"> {
  const { origin } = URL.parse(queue) ?? {};
  if (origin === undefined) return {};
  const [, region] = /^https:\/\/sqs\.([a-z0-9-]+)\.amazonaws\./.exec(origin) ?? [];
  return { endpoint: origin, ...(region !== undefined && { region }) };
}
