#!/usr/bin/env node
// A ledger that is a file, and a client on standard input: node node.js USER.json LEDGER.json
// takes a message a line, and prints a reply a line. node node.js --create LEDGER.json makes a ledger.
import { closeSync, fsyncSync, openSync, readFileSync, realpathSync, renameSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { Client } from "./client.js";

export { Client };

/** A ledger in a file, which must exist: a new one would forget what was spent. */
export class FileLedger {
  static create(path) { writeFileSync(path, JSON.stringify({ spent: 0, replies: {} }), { flag: "wx", flush: true }); }
  constructor(path) {
    this.path = path;
    this.read();
    try {
      closeSync(openSync(`${path}.lock`, "wx"));
    } catch (error) {
      throw new Error(`Expected a ledger that no other process uses, got ${path}: remove ${path}.lock if one was killed.`, { cause: error });
    }
    process.once("exit", () => this.close());
  }
  close() { rmSync(`${this.path}.lock`, { force: true }); }
  read() { return JSON.parse(readFileSync(this.path, "utf8")); }
  commit(ledger) {  // on the disk before the reply leaves
    const file = openSync(`${this.path}.new`, "w");
    writeSync(file, JSON.stringify(ledger)); fsyncSync(file); closeSync(file);
    renameSync(`${this.path}.new`, this.path);
    const folder = openSync(dirname(this.path), "r");
    fsyncSync(folder); closeSync(folder);
  }
}

function answered(client, line) {
  let message;
  try { message = JSON.parse(line); } catch { return { error: [100, "Expected a message as JSON."] }; }
  return client.answer(message);
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const [, , user, ledger] = process.argv;
  if (user === "--create") FileLedger.create(ledger);
  else {
    const client = new Client(JSON.parse(readFileSync(user, "utf8")), new FileLedger(ledger));
    // JSON's numbers are doubles: those of more than 53 bits (salt, low, high, group) come as texts.
    for await (const line of createInterface({ input: process.stdin })) console.log(JSON.stringify(answered(client, line)));
  }
}
