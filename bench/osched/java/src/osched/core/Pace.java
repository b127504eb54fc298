package osched.core;

import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;

/**
 * When the rows of a source are due, whether or not the engine keeps up (an open loop). A source that is late
 * emits the rows that it owes at once, with the times at which they were due. Each source has one, which its
 * thread uses.
 */
public final class Pace {
    /** Rows per second of each source, from a moment on. */
    private record Plan(double rowsPerSecond, long startNs) {}

    private static final List<Pace> ALL = new CopyOnWriteArrayList<>();
    private static volatile Plan plan = new Plan(0, 0);
    private static volatile int sources = 1;

    private final Generator generator;
    private final SplittableRandom random;
    /** Shifts the sources against each other, so that their rows do not come at the same moments. */
    private final double phase;
    private final AtomicLong emitted = new AtomicLong();
    private long total;
    private volatile Plan current = plan;

    private Pace(String source, long seed, Generator generator) {
        this.generator = generator;
        this.random = new SplittableRandom(seed ^ (long) source.hashCode() << 20);
        this.phase = random.nextDouble();
    }

    /** The pace of a source that starts. */
    public static Pace of(String source, long seed, Generator generator) {
        Pace pace = new Pace(source, seed, generator);
        ALL.add(pace);
        return pace;
    }

    /** Sets how many sources share the rate. */
    public static void sources(int count) {
        sources = count;
    }

    /**
     * From now on all sources together are due to emit so many rows per second; rows that are owed are
     * forgotten.
     */
    public static void rate(double rowsPerSecond) {
        plan = new Plan(rowsPerSecond / sources, System.nanoTime());
    }

    /** How many rows all sources owe: due and not yet emitted. */
    public static long owed() {
        Plan now = plan;
        if (now.rowsPerSecond == 0) {
            return 0;
        }
        double due = (System.nanoTime() - now.startNs) / 1e9 * now.rowsPerSecond;
        long owed = 0;
        for (Pace pace : ALL) {
            long emitted = pace.current == now ? pace.emitted.get() : 0;
            owed += Math.max(0, (long) Math.floor(due - pace.phase) + 1 - emitted);
        }
        return owed;
    }

    /** The row that is due; null if none is. */
    public Row poll() {
        long due = dueNs();
        long now = System.nanoTime();
        if (due > now) {
            return null;
        }
        Row row = generator.next(total++, random);
        row.scheduledNs = due;
        row.emittedNs = now;
        emitted.lazySet(emitted.get() + 1);
        return row;
    }

    /**
     * How many nanoseconds are left until the next row is due: none or less if it is; without a rate an hour.
     */
    public long leftNs() {
        return dueNs() - System.nanoTime();
    }

    private long dueNs() {
        Plan now = plan;
        if (now != current) {
            emitted.lazySet(0);
            current = now;
        }
        if (now.rowsPerSecond == 0) {
            return System.nanoTime() + 3_600_000_000_000L;
        }
        return now.startNs + (long) ((emitted.get() + phase) * 1e9 / now.rowsPerSecond);
    }
}
