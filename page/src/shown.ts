// Text from outside, made safe to look at. Names, errors and rows may hold characters that hide or reorder what follows.

/** C0 and C1 controls, bidirectional controls, invisible spaces and separators, and halves of surrogate pairs. */
const HIDDEN =
  /[\u0000-\u001f\u007f-\u009f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

function visible(char: string): string {
  const code = char.charCodeAt(0);
  // Unicode has pictures of the C0 controls: ␀ to ␟, and ␡.
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return "\\u" + code.toString(16).padStart(4, "0");
}

/** The text with control and bidirectional characters as visible escapes. */
export function shown(text: string): string {
  return text.replace(HIDDEN, visible);
}

/** As `shown`, but line ends and tabs stay: for SQL, plans and messages of several lines. */
export function shownLines(text: string): string {
  return text.replace(/\r\n/g, "\n").replace(HIDDEN, (char) => (char === "\n" || char === "\t" ? char : visible(char)));
}

/** The first `max` characters, with … if that is not all. Never half of a surrogate pair. */
export function cut(text: string, max: number): string {
  if (text.length <= max) return text;
  let end = Math.max(0, max - 1);
  const last = text.charCodeAt(end - 1);
  if (last >= 0xd800 && last <= 0xdbff) end -= 1;
  return text.slice(0, end) + "…";
}
