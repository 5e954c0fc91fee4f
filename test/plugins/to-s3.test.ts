/** The S3 transport against moto's server: what becomes one object, and what a repeat overwrites. */
import { expect, it } from "vitest";
import { sendTo, textOf } from "../support/bus-bench.ts";
import { describeBus } from "../support/bus-laws.ts";
import { s3Bus } from "../support/buses/s3.ts";

describeBus(s3Bus, (stage) => {
  const { open } = stage;

  it("makes one object of the deliveries to a prefix that come within the time of a batch, in their order", async () => {
    const transport = await open({ batchMs: 200 });
    const ids = Array.from({ length: 40 }, (_, i) => `dlv_${String(i).padStart(2, "0")}`);
    const replies = await Promise.all(ids.map((messageId) => sendTo(transport, "s3://bus/batch", { messageId })));
    const [object, ...others] = await stage.far.objects("batch");
    expect(others).toEqual([]);
    expect(object?.lines.map(({ messageId }) => messageId)).toEqual(ids);
    expect(new Set(replies.map(textOf))).toEqual(new Set([`200 bucket archive, object ${object?.key}`]));
  });

  it("stores an object as soon as it has the bytes of a batch", async () => {
    const transport = await open({ batchMs: 60_000, batchBytes: 1_000 });
    const body = Buffer.alloc(1_200, "x");
    const replies = await Promise.all(
      Array.from({ length: 2 }, () => sendTo(transport, "s3://bus/full", { body, timeoutMs: 100_000 })),
    );
    expect(replies.map(textOf)).toEqual(Array(2).fill(expect.stringMatching(/^200/)));
    expect((await stage.far.objects("full")).map(({ lines }) => lines.length)).toEqual([1, 1]);
  });

  it("waits no longer for others than half of a delivery's time", async () => {
    const transport = await open({ batchMs: 60_000 });
    expect(textOf(await sendTo(transport, "s3://bus/soon", { timeoutMs: 2_000 }))).toMatch(/^200/);
  });

  it("overwrites the object of the same deliveries, and no other", async () => {
    const transport = await open({ batchMs: 200 });
    const batch = (...ids: readonly string[]) =>
      Promise.all(ids.map((messageId) => sendTo(transport, "s3://bus/again", { messageId })));
    await batch("dlv_a", "dlv_b");
    await batch("dlv_a", "dlv_b");
    expect(await stage.far.objects("again")).toHaveLength(1);
    // The first alone, as after a crash that has forgotten it, but not the second.
    await batch("dlv_a");
    const lines = (await stage.far.objects("again")).flatMap((object) => object.lines);
    expect(lines.map(({ messageId }) => messageId).toSorted()).toEqual(["dlv_a", "dlv_a", "dlv_b"]);
  });

  it("is away while its bucket is not there, and says so", async () => {
    const transport = await open();
    await stage.far.client.createBucket({
      ...{ Bucket: "short", CreateBucketConfiguration: { LocationConstraint: "eu-central-1" } },
    });
    const other = await open({ bucket: "short" });
    await stage.far.client.deleteBucket({ Bucket: "short" });
    expect(await sendTo(other, "s3://bus/a")).toMatchObject({ kind: "unavailable" });
    await expect.poll(() => other.readiness?.()).toMatch(/is not connected: .*NoSuchBucket/);
    expect(transport.readiness?.()).toBeUndefined();
  });
});
