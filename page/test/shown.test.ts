import assert from "node:assert/strict";
import { test } from "node:test";
import { cut, shown, shownLines } from "../src/shown";

test("control characters are pictures or escapes", () => {
  assert.equal(shown("a\u001b[31mb"), "a\u241b[31mb");
  assert.equal(shown("a\tb\nc\u0000\u007f"), "a\u2409b\u240ac\u2400\u2421");
  assert.equal(shown("\u009b"), "\\u009b");
});

test("bidirectional and invisible characters are escapes", () => {
  assert.equal(shown("user\u202egpj.exe"), "user\\u202egpj.exe");
  for (const code of [0x061c, 0x200b, 0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x2066, 0x2069, 0xfeff]) {
    assert.equal(shown(String.fromCharCode(code)), "\\u" + code.toString(16).padStart(4, "0"));
  }
});

test("letters of all languages and whole pairs stay, halves of pairs do not", () => {
  assert.equal(shown("Größe שלום 日本 👩‍🚀"), "Größe שלום 日本 👩‍🚀");
  assert.equal(shown("a\ud83d"), "a\\ud83d");
  assert.equal(shown("\ude80b"), "\\ude80b");
});

test("several lines keep their line ends and tabs only", () => {
  assert.equal(shownLines("a\r\n\tb\u202e"), "a\n\tb\\u202e");
});

test("long texts are cut with a sign, never within a pair", () => {
  assert.equal(cut("abc", 3), "abc");
  assert.equal(cut("abcd", 3), "ab…");
  assert.equal(cut("a👩bc", 3), "a…");
  assert.equal(cut("x".repeat(500), 60).length, 60);
});
