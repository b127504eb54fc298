import assert from "node:assert/strict";
import { test } from "node:test";
import { EXAMPLES } from "../src/editor/examples";
import { format } from "../src/editor/formatter";
import { tokens } from "../src/editor/tokens";

test("clauses begin lines, and keywords get capital letters", () => {
  const sql = "select a, count(*) as n from t left join u on t.k = u.k where a > 1 and b is not null group by a having count(*) > 1;insert into s select * from t union all select * from u";
  assert.equal(
    format(sql),
    `SELECT a, count(*) AS n
FROM t
LEFT JOIN u ON t.k = u.k
WHERE a > 1 AND b IS NOT NULL
GROUP BY a
HAVING count(*) > 1;
INSERT INTO s
SELECT *
FROM t
UNION ALL
SELECT *
FROM u
`,
  );
});

test("columns and options of a table have lines of their own", () => {
  const sql = "create table t (a BIGINT, ts TIMESTAMP(3), watermark for ts as ts - interval '5' second) with ('connector'='datagen','rows-per-second'='1','fields.a.min'='2');";
  assert.equal(
    format(sql),
    `CREATE TABLE t (
  a BIGINT,
  ts TIMESTAMP(3),
  watermark for ts AS ts - interval '5' second
) WITH (
  'connector'='datagen',
  'rows-per-second'='1',
  'fields.a.min'='2'
);
`,
  );
});

test("a subquery is indented", () => {
  const sql = "SELECT a FROM (select a, b from t where c = 'x') WHERE b < 3";
  assert.equal(format(sql), "SELECT a\nFROM (\n  SELECT a, b\n  FROM t\n  WHERE c = 'x'\n)\nWHERE b < 3\n");
});

test("names keep their case, also where they look like keywords", () => {
  for (const sql of [
    "CREATE TABLE t (from STRING, order BIGINT, left INT, on INT, as INT)",
    "SELECT t.from, t.where, r.group FROM t",
    "SELECT a on FROM t",
    "SELECT left(a, 2), select FROM t",
    "SELECT `from`, \"where\" FROM `group`",
  ]) {
    const written = format(sql);
    assert.ok(written !== null);
    const same = (text: string) => (tokens(text) ?? []).map((token) => token.text);
    assert.deepEqual(same(written), same(sql), sql);
  }
});

test("comments and texts stay as they are", () => {
  const sql = "-- select  from\nselect 'a  from\n b''c' /*  where  */ from t -- end  \nwhere x = 1";
  const written = format(sql) ?? "";
  for (const part of ["-- select  from\n", "'a  from\n b''c'", "/*  where  */", "-- end  \n"]) assert.ok(written.includes(part), part);
});

test("what is not read for sure is not formatted", () => {
  for (const sql of ["SELECT 'open", "SELECT /* open", "SELECT e'a\\'b'", "SELECT $$a  b$$", "SELECT U&'\\00e9'", "SELECT 1 /* a /* b */ c */", "# a  b", 'SELECT "open', "SELECT a // b"]) {
    assert.equal(format(sql), null, sql);
  }
});

test("formatting again changes nothing, and the tokens of any text stay", () => {
  const pieces = ["select", "from", "where", "a", "b", ",", "(", ")", ";", "=", "'x  y'", "-- c\n", "/* d */", " ", "\n", "\n\n", "create", "table", "with", "as", "on", "left", "join", "1.5", ".", "group", "by", "union", "all", "\t", "`q`", "*", "is", "not", "null"];
  let seed = 11;
  const random = (below: number) => (seed = (seed * 48271) % 2147483647) % below;
  const plain = (text: string) => (tokens(text) ?? []).map((token) => (token.kind === "word" ? token.text.toUpperCase() : token.text));
  let formatted = 0;
  for (let round = 0; round < 4000; round += 1) {
    const sql = Array.from({ length: random(30) }, () => pieces[random(pieces.length)]).join(random(2) === 0 ? " " : "");
    const written = format(sql);
    if (written === null) continue;
    formatted += 1;
    assert.deepEqual(plain(written), plain(sql), JSON.stringify(sql));
    assert.equal(format(written), written, JSON.stringify(sql));
  }
  assert.ok(formatted > 1000, String(formatted));
});

test("the examples are formatted already", () => {
  for (const { name, text } of EXAMPLES) {
    const written = format(text) ?? "";
    const plain = (sql: string) => sql.replace(/\s+/g, " ");
    assert.equal(plain(written), plain(text), name);
  }
});
