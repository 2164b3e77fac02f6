// Run by `node --test packaging/npm`. The vectors hold what the Python client replies.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { Client, MemoryLedger, threshold } from "./client.js";

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
