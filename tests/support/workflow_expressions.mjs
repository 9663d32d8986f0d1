// GitHub's own evaluator of `${{ … }}`, one JSON request a line: {contexts, value} → the value with
// every expression in it evaluated. `contexts.status` is what success() and failure() look at.
import { createInterface } from "node:readline";
import { Evaluator, Lexer, Parser, data } from "@actions/expressions";

const names = ["always", "success", "failure", "cancelled"];
const infos = names.map((name) => ({ name, minArgs: 0, maxArgs: 0 }));

function evaluate(text, contexts) {
  const known = Object.keys(contexts);
  const tree = new Parser(new Lexer(text).lex().tokens, known, infos).parse();
  const values = { always: true, success: contexts.status !== "failure" };
  values.failure = !values.success;
  values.cancelled = false;
  const functions = new Map(
    infos.map((info) => [info.name, { ...info, call: () => new data.BooleanData(values[info.name]) }]),
  );
  const given = JSON.parse(JSON.stringify(contexts), data.reviver);
  return new Evaluator(tree, given, functions).evaluate();
}

function resolve(value, contexts) {
  if (Array.isArray(value)) return value.map((each) => resolve(each, contexts));
  if (value !== null && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, resolve(each, contexts)]));
  }
  if (typeof value !== "string") return value;
  const whole = /^\$\{\{((?:(?!\}\}).)*)\}\}$/s.exec(value.trim());
  if (whole) return JSON.parse(JSON.stringify(evaluate(whole[1], contexts), data.replacer));
  return value.replace(/\$\{\{(.*?)\}\}/gs, (_, text) => evaluate(text, contexts).coerceString());
}

for await (const line of createInterface({ input: process.stdin })) {
  const { contexts, value } = JSON.parse(line);
  console.log(JSON.stringify(resolve(value, contexts)));
}
