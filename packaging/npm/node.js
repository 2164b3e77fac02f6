#!/usr/bin/env node
// A ledger that is a file, and a client on standard input: node node.js USER.json LEDGER.json
// takes a message a line, and prints a reply a line. The file is for one process.
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, realpathSync, renameSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { Client } from "./client.js";

export { Client };

export class FileLedger {
  constructor(path) { this.path = path; }
  read() { return existsSync(this.path) ? JSON.parse(readFileSync(this.path, "utf8")) : { spent: 0, replies: {} }; }
  commit(ledger) {  // on the disk before the reply leaves
    const file = openSync(`${this.path}.new`, "w");
    writeSync(file, JSON.stringify(ledger)); fsyncSync(file); closeSync(file);
    renameSync(`${this.path}.new`, this.path);
  }
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const [, , user, ledger] = process.argv;
  const client = new Client(JSON.parse(readFileSync(user, "utf8")), new FileLedger(ledger));
  // JSON's numbers are doubles: those of more than 53 bits (salt, low, high, group) come as texts.
  for await (const line of createInterface({ input: process.stdin })) console.log(JSON.stringify(client.answer(JSON.parse(line))));
}
