package osched.core;

import java.io.Serializable;

/**
 * A row of any workload. It has public fields and a constructor without arguments, so that Flink serializes
 * it as a POJO. Storm hands it on by reference: nobody changes a row after it was emitted.
 */
public final class Row implements Serializable {
    private static final long serialVersionUID = 1;

    /**
     * When the source should have emitted the row that caused this one: nanoseconds of {@link
     * System#nanoTime}.
     */
    public long scheduledNs;
    /** When the source did emit it, on the same clock. */
    public long emittedNs;
    /** Which type of row it is: constants of the workload. */
    public int kind;
    /** Its columns; whole numbers below 2^53 are exact. */
    public double[] fields;
    /** Its text; null if it has none. */
    public String text;

    /** For Flink. */
    public Row() {}

    /** A row without times, as a generator makes it. */
    public Row(int kind, String text, double... fields) {
        this.kind = kind;
        this.text = text;
        this.fields = fields;
    }

    /** Another row that this one causes: it keeps the times. */
    public Row with(int newKind, String newText, double... newFields) {
        Row row = new Row(newKind, newText, newFields);
        row.scheduledNs = scheduledNs;
        row.emittedNs = emittedNs;
        return row;
    }

    /** Another row without text that this one causes. */
    public Row with(int newKind, double... newFields) {
        return with(newKind, null, newFields);
    }
}
