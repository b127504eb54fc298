// The parts of node that the tests use; its own types would be a further package.
declare module "node:test" {
  export function test(name: string, body: () => void | Promise<void>): void;
  export function describe(name: string, body: () => void): void;
  export function it(name: string, body: () => void | Promise<void>): void;
  export default test;
}
declare module "node:assert/strict" {
  interface Assert {
    (value: unknown, message?: string): asserts value;
    equal(actual: unknown, expected: unknown, message?: string): void;
    deepEqual(actual: unknown, expected: unknown, message?: string): void;
    notEqual(actual: unknown, expected: unknown, message?: string): void;
    ok(value: unknown, message?: string): asserts value;
    match(text: string, pattern: RegExp, message?: string): void;
    throws(body: () => unknown, expected?: unknown, message?: string): void;
    rejects(body: Promise<unknown> | (() => Promise<unknown>), expected?: unknown, message?: string): Promise<void>;
  }
  const assert: Assert;
  export default assert;
}
