/** The program of a thread that runs a node. */
import { parentPort, workerData, type MessagePort } from "node:worker_threads";
import { runThread } from "./node-threads.ts";

runThread(workerData, parentPort as MessagePort);
