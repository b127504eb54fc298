// Server-sent events as text: what arrives in pieces becomes whole events.

/** An event of a stream. `id` and `event` are empty if the server gave none. */
export interface StreamEvent {
  id: string;
  event: string;
  data: string;
}

/** Takes text as it arrives and returns the events that are complete. Comments are counted, not returned. */
export class EventParser {
  comments = 0;
  private rest = "";
  private id = "";
  private event = "";
  private data: string[] = [];

  push(text: string): StreamEvent[] {
    const events: StreamEvent[] = [];
    const lines = (this.rest + text).split("\n");
    // The last piece has no line end yet.
    this.rest = lines.pop() ?? "";
    for (const line of lines) this.line(line.endsWith("\r") ? line.slice(0, -1) : line, events);
    return events;
  }

  private line(line: string, events: StreamEvent[]): void {
    if (line === "") {
      if (this.data.length > 0) events.push({ id: this.id, event: this.event, data: this.data.join("\n") });
      this.id = "";
      this.event = "";
      this.data = [];
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) {
      this.comments += 1;
      return;
    }
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "id") this.id = value;
    else if (field === "event") this.event = value;
    else if (field === "data") this.data.push(value);
  }
}
