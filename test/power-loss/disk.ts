/**
 * A disk that forgets: replays the steps of a process, and knows of each sector, size and name which of its states a power
 * cut may leave. Nothing is promised without a sync of the file or folder itself, in whatever order it was done; the one
 * promise beyond that is that a rename never loses the file under both names.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { History } from "./history.ts";
import type { Step } from "./trace.ts";

export const SECTOR = 512;
const PAGE = 4_096;
const ZERO = Buffer.alloc(SECTOR);

export interface File {
  readonly sectors: Map<number, History<Buffer>>;
  readonly size: History<number>;
}
export interface Folder {
  readonly entries: Map<string, History<Node | undefined>>;
}
export type Node = File | Folder;

const isFolder = (node: Node | undefined): node is Folder => node !== undefined && "entries" in node;
const newFile = (): File => ({ sectors: new Map(), size: new History(0) });
const newFolder = (): Folder => ({ entries: new Map() });

export class Disk {
  readonly path: string;
  readonly root: Folder;
  /** Everything that is not settled: what a power cut decides about. */
  readonly open = new Map<History<unknown>, "data" | "size" | "entry">();
  #seq = 0;
  readonly #fds = new Map<number, { readonly node: Node; position: number }>();
  readonly #syncing = new Map<string, { readonly node: Node; readonly mark: number }>();

  /** Counts as synced what lies in the folder now. */
  constructor(path: string) {
    this.path = path;
    this.root = load(path);
  }

  /** The process died, and not the machine: what it wrote stays, its descriptors are closed. */
  died(): void {
    this.#fds.clear();
    this.#syncing.clear();
  }

  /** @returns true when the step changed something */
  apply(step: Step): boolean {
    this.#seq++;
    switch (step.op) {
      case "open":
        return this.#opened(step);
      case "close":
        this.#fds.delete(step.fd);
        return false;
      case "write":
        return this.#write(step.fd, step.bytes, step.offset);
      case "truncate": {
        const file = this.#fds.get(step.fd)?.node as File | undefined;
        if (file !== undefined) this.#truncate(file, step.size);
        return file !== undefined;
      }
      case "syncing": {
        const node = this.#fds.get(step.fd)?.node;
        if (node !== undefined) this.#syncing.set(step.thread, { node, mark: this.#seq });
        return false;
      }
      case "synced":
        return this.#synced(step.thread, step.ok);
      case "say":
        return false;
      default:
        return this.#moved(step);
    }
  }

  #opened({ fd, path, create, cut }: Extract<Step, { op: "open" }>): boolean {
    const place = this.#place(path);
    if (place === undefined) return false;
    let node = place.node;
    const made = node === undefined && create;
    if (made) {
      node = newFile();
      this.#set(place.folder, place.name, node);
    }
    if (node === undefined) return false;
    if (cut && !isFolder(node)) this.#truncate(node, 0);
    this.#fds.set(fd, { node, position: 0 });
    return made || cut;
  }

  #moved(step: Extract<Step, { readonly path: string }>): boolean {
    const place = this.#place(step.path);
    if (place === undefined) return false;
    const { folder, name, node } = place;
    if (step.op === "mkdir") this.#set(folder, name, newFolder());
    else if (step.op === "unlink" || step.op === "rmdir") this.#set(folder, name, undefined);
    else if (step.op === "rename" || step.op === "link") {
      const target = this.#place(step.to);
      if (target === undefined) throw new Error(`the trace moves ${step.path} out of sight`);
      const history = this.#set(target.folder, target.name, node);
      if (step.op === "rename") this.#set(folder, name, undefined, { history, seq: this.#seq });
    }
    return true;
  }

  #set(folder: Folder, name: string, node: Node | undefined, needs?: { history: History<unknown>; seq: number }) {
    let history = folder.entries.get(name);
    if (history === undefined) folder.entries.set(name, (history = new History<Node | undefined>(undefined)));
    history.push(node, this.#seq, needs);
    this.open.set(history, "entry");
    return history as History<unknown>;
  }

  #write(fd: number, bytes: Buffer, offset: number | undefined): boolean {
    const target = this.#fds.get(fd);
    if (target === undefined || isFolder(target.node)) return false;
    const file = target.node;
    const from = offset ?? target.position;
    const to = from + bytes.length;
    if (offset === undefined) target.position = to;
    for (let at = from - (from % PAGE); at < to; at += SECTOR) {
      const sector = at / SECTOR;
      const [begin, end] = [Math.max(at, from), Math.min(at + SECTOR, to)];
      const known = file.sectors.get(sector);
      // A page goes to the disk as a whole: one that is written again takes along what a failed sync had lost of it.
      if (begin >= end) {
        if (known?.lost === true) this.#put(file, sector, known.now);
        continue;
      }
      const copy = Buffer.from(known?.now ?? ZERO);
      bytes.copy(copy, begin - at, begin - from, end - from);
      this.#put(file, sector, copy);
    }
    if (to > file.size.now) this.#resize(file, to);
    return true;
  }

  #put(file: File, sector: number, bytes: Buffer): void {
    let history = file.sectors.get(sector);
    if (history === undefined) file.sectors.set(sector, (history = new History(ZERO)));
    history.push(bytes, this.#seq);
    this.open.set(history as History<unknown>, "data");
  }

  #resize(file: File, size: number): void {
    file.size.push(size, this.#seq);
    this.open.set(file.size as History<unknown>, "size");
  }

  #truncate(file: File, size: number): void {
    for (const [sector, history] of file.sectors) {
      const keep = Math.max(0, size - sector * SECTOR);
      if (keep >= SECTOR) continue;
      const copy = Buffer.from(history.now);
      this.#put(file, sector, copy.fill(0, keep));
    }
    this.#resize(file, size);
  }

  #synced(thread: string, ok: boolean): boolean {
    const sync = this.#syncing.get(thread);
    this.#syncing.delete(thread);
    if (sync === undefined) return false;
    const { node, mark } = sync;
    const own: Iterable<History<never>> = isFolder(node)
      ? (node.entries.values() as Iterable<History<never>>)
      : ([...node.sectors.values(), node.size] as unknown as readonly History<never>[]);
    for (const history of own) {
      if (ok) history.sync(mark);
      // Sizes and names are tried again with the next sync: a file system that cannot write those stops.
      else if (!isFolder(node) && history !== (node.size as unknown)) history.fail(mark);
    }
    for (const history of this.open.keys()) if (history.settled) this.open.delete(history);
    return true;
  }

  /** Where a path leads in the eyes of the process; `undefined` outside of the recorded folder. */
  #place(
    path: string,
  ): { readonly folder: Folder; readonly name: string; readonly node: Node | undefined } | undefined {
    if (path === this.path) return { folder: { entries: new Map() }, name: "", node: this.root };
    if (!path.startsWith(`${this.path}/`)) return undefined;
    const parts = path
      .slice(this.path.length + 1)
      .split("/")
      .filter((part) => part !== "" && part !== ".");
    const name = parts.pop() ?? "";
    let folder = this.root;
    for (const part of parts) {
      const next = folder.entries.get(part)?.now;
      if (!isFolder(next)) return undefined;
      folder = next;
    }
    return { folder, name, node: folder.entries.get(name)?.now };
  }
}

function load(path: string): Folder {
  const folder = newFolder();
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    const inner = join(path, entry.name);
    const node = entry.isDirectory() ? load(inner) : loadFile(readFileSync(inner));
    folder.entries.set(entry.name, new History<Node | undefined>(node));
  }
  return folder;
}

function loadFile(bytes: Buffer): File {
  const sectors = new Map<number, History<Buffer>>();
  for (let at = 0; at < bytes.length; at += SECTOR) {
    const sector = Buffer.alloc(SECTOR);
    bytes.copy(sector, 0, at, at + SECTOR);
    sectors.set(at / SECTOR, new History(sector));
  }
  return { sectors, size: new History(bytes.length) };
}
