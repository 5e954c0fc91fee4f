/** How far each partition is done: an offset may be committed when all messages before it are. */

interface PartitionProgress {
  /** Notes a message that was fetched. Of one partition they come in ascending order. */
  begin(partition: string, offset: bigint): void;
  /** Notes that a message is stored or set aside. */
  end(partition: string, offset: bigint): void;
  /** Returns the partitions that got further since the last call, each with the offset to go on from. */
  take(): readonly (readonly [partition: string, offset: bigint])[];
}

interface Line {
  /** Offsets that were fetched and are not passed yet, ascending. Offsets may have gaps. */
  readonly open: bigint[];
  readonly done: Set<bigint>;
}

export function createPartitionProgress(): PartitionProgress {
  const lines = new Map<string, Line>();
  const further = new Map<string, bigint>();
  return {
    begin(partition, offset) {
      const line = lines.get(partition) ?? { open: [], done: new Set() };
      lines.set(partition, line);
      line.open.push(offset);
    },
    end(partition, offset) {
      const line = lines.get(partition);
      if (line === undefined) return;
      line.done.add(offset);
      let passed = 0;
      while (passed < line.open.length && line.done.delete(line.open[passed] as bigint)) passed++;
      if (passed === 0) return;
      further.set(partition, (line.open[passed - 1] as bigint) + 1n);
      line.open.splice(0, passed);
    },
    take() {
      const taken = [...further];
      further.clear();
      return taken;
    },
  };
}
