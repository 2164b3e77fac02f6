// Run by `node --test packaging/npm`. The vectors hold what the Python client replies.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { Client, MemoryLedger, threshold } from "./client.js";
import { FileLedger } from "./node.js";

const vectors = JSON.parse(readFileSync(new URL("../../simulations/wire_client/vectors.json", import.meta.url), "utf8"));
const census = { type: "query.census" };

for (const { name, user, census: told, query, words, reply } of vectors) {
  test(`the Python client's bytes: ${name}`, () => {
    const left = words.map(BigInt);
    const client = new Client(user, new MemoryLedger(), () => left.shift());
    if (told) assert.deepEqual(client.answer(census).census, told);
    assert.deepEqual(client.answer(query), reply);
    assert.deepEqual(client.answer(query), reply);  // paid once
    assert.equal(left.length, 0);
  });
}

// Reports of `people` devices to one query, counted by their first byte.
function counted({ user, query }, people) {
  const found = [];
  for (let i = 0; i < people; i += 1) {
    const { payload } = new Client(user, new MemoryLedger()).answer(query);
    const report = parseInt(payload.slice(0, 2), 16);
    found[report] = (found[report] ?? 0) + 1;
  }
  return found;
}

for (const [name, own] of [["category, epsilon 0.5", 1], ["category, epsilon 1", 1], ["nothing there, epsilon 1", 3]]) {
  test(`the law of reports: ${name}`, () => {
    const vector = vectors.find((each) => each.name === name), people = 2000;
    const epsilon = vector.query.config["randomizer.epsilon"], size = vector.query.config["randomizer.domain_size"];
    const likely = Math.exp(epsilon) / (Math.exp(epsilon) + size - 1);
    assert.ok(Math.abs(Number(threshold(epsilon, size - 1)) / 2 ** 64 - likely) < 1e-15);
    const found = counted(vector, people);
    let deviation = 0;
    for (let item = 0; item < size; item += 1) {
      const expected = people * (item === own ? likely : (1 - likely) / (size - 1));
      deviation += ((found[item] ?? 0) - expected) ** 2 / expected;
    }
    assert.ok(deviation < 30.7, `chi-squared ${deviation}`);  // 3 degrees of freedom: once in a million runs
  });
}

test("a budget of 4 pays for four reports of epsilon 1", () => {
  const { user, query } = vectors.find(({ name }) => name === "category, epsilon 1");
  const client = new Client(user, new MemoryLedger());
  const replies = [1, 2, 3, 4, 5].map((step) => client.answer({ ...query, config: { ...query.config, step } }));
  assert.deepEqual(replies.map(({ error }) => error?.[0]), [undefined, undefined, undefined, undefined, 102]);
  assert.equal(client.answer(census).census.exhausted, 1);
});

const named = (name) => vectors.find((each) => each.name === name);
const packed = (arrays) => {  // layout and payload of arrays of numbers
  const layout = [], bytes = [];
  for (const [name, values] of Object.entries(arrays).sort()) {
    const whole = name === "coordinates", view = new DataView(new ArrayBuffer(8 * values.length));
    values.forEach((v, i) => (whole ? view.setBigInt64(8 * i, BigInt(v), true) : view.setFloat64(8 * i, v, true)));
    layout.push([name, whole ? "<i8" : "<f8", [values.length]]);
    bytes.push(Buffer.from(view.buffer).toString("hex"));
  }
  return { layout: JSON.stringify(layout), payload: bytes.join("") };
};

test("what a server asks for decides about a refusal, and never an entry", () => {
  const { user, query } = named("category and level, epsilon 1");
  const plain = { coordinates: [1, 2, 3, 4], sizes: [3], low: [0], high: [1] };
  const weird = [
    {}, { low: [1], high: [0] }, { low: [NaN] }, { sizes: [1e9] }, { sizes: [0] }, { sizes: [2.5] }, { coordinates: [0, 1, 2] },
    { coordinates: [9, 1, 2, 3] }, { coordinates: [-1, 1, 2, 3] }, { instead: [0] }, { instead: [0, 0, 0, 0, 0, 0] },
    { instead: [1, 1, 1, 1, 1, 1] }, { edges: [1] },
  ];
  for (const arrays of weird) for (const levels of [2, 1e15, -1, 0, 1.5, Infinity, NaN, "2"]) for (const domain_size of [3, 6, 7, 255]) {
    const { layout, payload } = packed({ ...plain, ...arrays });
    const config = { ...query.config, layout, "param.levels": levels, "randomizer.domain_size": domain_size };
    const told = [user.features, [1, null, null, null, null], [1, NaN, "a", null, 1e308]].map((features) => {
      const { error } = new Client({ ...user, features }, new MemoryLedger()).answer({ ...query, config, payload });
      return JSON.stringify(error);
    });
    assert.equal(new Set(told).size, 1, told.join());
  }
});

test("messages of another form are refused at no cost", () => {
  const { user, query } = named("category, epsilon 1");
  const forms = [
    { zzz: 1 }, { "param.foo": 1 }, { step: undefined }, { numbered: true }, { study: "a" }, { collections: 50 }, { salt: 5.5 },
    { statistic: "constructor" }, { statistic: "toString" }, { "randomizer.name": "constructor" }, { "randomizer.domain_size": 5 },
    ...[NaN, Infinity, 0, -1, 1e9, "1", null].map((epsilon) => ({ "randomizer.epsilon": epsilon })),
  ];
  const ledger = new MemoryLedger(), client = new Client(user, ledger);
  for (const form of forms) assert.equal(client.answer({ ...query, config: { ...query.config, ...form } }).error?.[0], 100, JSON.stringify(form));
  assert.equal(ledger.read().spent, 0);
  assert.equal(new Client({ ...user, "max-epsilon": Infinity }, ledger).answer(query).error[0], 103);
});

test("a user pays before it computes, and an attempt that ended is answered without data", () => {
  const { user, query } = named("category, epsilon 1"), ledger = new MemoryLedger();
  const dying = new Client(user, ledger, () => { throw new Error("the process ended"); });
  assert.equal(dying.answer(query).error[0], 104);
  assert.equal(ledger.read().spent, 1);
  const other = new Client({ ...user, features: [1, null, null, null, null] }, ledger, () => 1n << 40n);
  const [first, second] = [1, 2].map(() => other.answer(query));
  assert.deepEqual(first, second);
  assert.equal(ledger.read().spent, 1);
});

test("a ledger that only promises to keep its entries gets no answer", () => {
  const { user, query } = named("category, epsilon 1"), ledger = new MemoryLedger();
  ledger.commit = async () => {};
  assert.equal(new Client(user, ledger).answer(query).error[0], 104);
});

test("a ledger in a file is made once, and used by one process", () => {
  const path = join(mkdtempSync(join(tmpdir(), "ledger-")), "ledger.json");
  assert.throws(() => new FileLedger(path), /ENOENT/);
  FileLedger.create(path);
  assert.throws(() => FileLedger.create(path), /EEXIST/);
  const ledger = new FileLedger(path);
  assert.throws(() => new FileLedger(path), /no other process/);
  const { user, query } = named("category, epsilon 1"), client = new Client(user, ledger);
  const reply = client.answer(query);
  ledger.close();
  assert.deepEqual(new Client(user, new FileLedger(path)).answer(query), reply);
  rmSync(path);
  assert.equal(client.answer(query).error[0], 104);  // not as if nothing were spent
});
