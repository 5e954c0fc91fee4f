/** The program of a thread that runs a node. */
import { parentPort, workerData, type MessagePort } from "node:worker_threads";
import type { ThreadData } from "./node-threads.ts";
import { runThread } from "./run-thread.ts";

void runThread(workerData as ThreadData, parentPort as MessagePort);
