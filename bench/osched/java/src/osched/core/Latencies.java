package osched.core;

import java.util.List;
import java.util.Locale;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.SingleWriterRecorder;

/**
 * What arrives at a sink: how many results, and two histograms of their latency in microseconds. Processing
 * latency begins when the source emits a row, end-to-end latency when the row was due. Only rows that were
 * due since {@link #begin} count; results that come after {@link #end} are counted apart.
 */
public final class Latencies {
    private static final long HIGHEST_US = 3_600_000_000L;
    /** Values are exact to one percent. */
    private static final int DIGITS = 2;
    private static final List<Latencies> ALL = new CopyOnWriteArrayList<>();
    private static volatile long beginNs = Long.MIN_VALUE;
    private static volatile long endNs = Long.MAX_VALUE;

    private final SingleWriterRecorder processing = new SingleWriterRecorder(HIGHEST_US, DIGITS);
    private final SingleWriterRecorder endToEnd = new SingleWriterRecorder(HIGHEST_US, DIGITS);
    private final AtomicLong late = new AtomicLong();

    private Latencies() {}

    /** The histograms of a sink that starts. One thread records. */
    public static Latencies ofSink() {
        Latencies made = new Latencies();
        ALL.add(made);
        return made;
    }

    /** A result has arrived. */
    public void record(Row row) {
        if (row.scheduledNs < beginNs || row.scheduledNs > endNs) {
            return;
        }
        long now = System.nanoTime();
        if (now > endNs) {
            late.lazySet(late.get() + 1);
            return;
        }
        processing.recordValue(microseconds(now - row.emittedNs));
        endToEnd.recordValue(microseconds(now - row.scheduledNs));
    }

    private static long microseconds(long ns) {
        return Math.max(0, Math.min(HIGHEST_US, ns / 1000));
    }

    /** The results of rows that are due from now on are counted, the others no longer. */
    public static void begin() {
        take();
        ALL.forEach(sink -> sink.late.set(0));
        endNs = Long.MAX_VALUE;
        beginNs = System.nanoTime();
    }

    /** Results that come from now on are late. Returns this time. */
    public static long end() {
        endNs = System.nanoTime();
        return endNs;
    }

    /** How many results of all sinks were late. */
    public static long late() {
        return ALL.stream().mapToLong(sink -> sink.late.get()).sum();
    }

    /** The results of all sinks since the last call, without late ones. */
    public static Taken take() {
        Taken taken = new Taken(new Histogram(HIGHEST_US, DIGITS), new Histogram(HIGHEST_US, DIGITS));
        for (Latencies sink : ALL) {
            taken.processing.add(sink.processing.getIntervalHistogram());
            taken.endToEnd.add(sink.endToEnd.getIntervalHistogram());
        }
        return taken;
    }

    /** Histograms over all sinks. */
    public record Taken(Histogram processing, Histogram endToEnd) {
        /** How many results there are. */
        public long results() {
            return processing.getTotalCount();
        }

        /** Members of a JSON object: latencies in milliseconds. */
        public String json() {
            return "\"results\": " + results() + ", \"processing_ms\": " + json(processing)
                    + ", \"end_to_end_ms\": " + json(endToEnd);
        }

        private static String json(Histogram us) {
            return String.format(Locale.ROOT,
                    "{\"mean\": %.3f, \"p50\": %.3f, \"p99\": %.3f, \"p99.9\": %.3f, \"max\": %.3f}",
                    us.getTotalCount() == 0 ? 0.0 : us.getMean() / 1e3, us.getValueAtPercentile(50) / 1e3,
                    us.getValueAtPercentile(99) / 1e3, us.getValueAtPercentile(99.9) / 1e3, us.getMaxValue() / 1e3);
        }
    }
}
