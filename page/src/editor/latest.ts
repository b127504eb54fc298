// Questions to the server of which only the answer to the newest counts.

/** Asks after a pause. A newer question ends the older ones: their answers are never taken. */
export class Latest<In, Out> {
  private number = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private running: AbortController | null = null;

  constructor(
    private readonly ask: (input: In, signal: AbortSignal) => Promise<Out>,
    private readonly take: (output: Out, input: In) => void,
    private readonly fail: (error: unknown, input: In) => void,
  ) {}

  /** Asks when nothing newer was asked for so many milliseconds. */
  after(pauseMs: number, input: In): void {
    this.stop();
    const number = this.number;
    this.timer = setTimeout(() => void this.run(number, input), pauseMs);
  }

  now(input: In): void {
    this.stop();
    void this.run(this.number, input);
  }

  /** No answer is taken any more. */
  stop(): void {
    this.number += 1;
    clearTimeout(this.timer);
    this.running?.abort();
    this.running = null;
  }

  private async run(number: number, input: In): Promise<void> {
    const running = new AbortController();
    this.running = running;
    try {
      const output = await this.ask(input, running.signal);
      if (number === this.number) this.take(output, input);
    } catch (error) {
      if (number === this.number) this.fail(error, input);
    } finally {
      if (number === this.number) this.running = null;
    }
  }
}
