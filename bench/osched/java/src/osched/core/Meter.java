package osched.core;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;

/**
 * Counts the rows before and in a node, for the whole process: the engine's own counters are sampled or
 * delayed, or count buffers. What waits is what was put in less what is done.
 */
public final class Meter {
    private static final Map<String, Meter> ALL = new ConcurrentHashMap<>();
    private static final LongAdder OPENED = new LongAdder();

    private final boolean source;
    private final LongAdder put = new LongAdder();
    private final LongAdder done = new LongAdder();
    private final AtomicLong oldestNs = new AtomicLong();

    private Meter(boolean source) {
        this.source = source;
    }

    /** The meter of a node; all instances of the node share it. */
    public static Meter of(String node, boolean source) {
        return ALL.computeIfAbsent(node, ignored -> new Meter(source));
    }

    /** The meters of the nodes to which each output leads. */
    public static Meter[][] of(String[][] targets) {
        Meter[][] meters = new Meter[targets.length][];
        for (int output = 0; output < targets.length; output++) {
            meters[output] = new Meter[targets[output].length];
            for (int target = 0; target < targets[output].length; target++) {
                meters[output][target] = of(targets[output][target], false);
            }
        }
        return meters;
    }

    /** An instance of a node is ready for rows. */
    public static void opened() {
        OPENED.increment();
    }

    /** How many instances are ready. */
    public static long openedCount() {
        return OPENED.sum();
    }

    /** A row was put before this node. */
    public void put() {
        put.increment();
    }

    /** A row was put before each of these nodes. */
    public static void put(Meter[] targets) {
        for (Meter target : targets) {
            target.put();
        }
    }

    /**
     * The node starts with a row that a source emitted then. Several instances may lose one another's
     * readings.
     */
    public void begin(Row row) {
        long age = System.nanoTime() - row.emittedNs;
        if (age > oldestNs.get()) {
            oldestNs.lazySet(age);
        }
    }

    /**
     * The node has processed a row, and has put what it emits before the nodes behind it. A source has
     * emitted one.
     */
    public void done() {
        done.increment();
    }

    /** How many rows all sources have emitted. */
    public static long ingress() {
        return ALL.values().stream().filter(meter -> meter.source).mapToLong(meter -> meter.done.sum()).sum();
    }

    /** How many rows wait before or are in a node: exact only if no source emits. */
    public static long inside() {
        // In this order a row that moves meanwhile counts twice, never not at all.
        long done = inner().stream().mapToLong(meter -> meter.done.sum()).sum();
        return inner().stream().mapToLong(meter -> meter.put.sum()).sum() - done;
    }

    /** How many rows wait before each node but sources, at about this moment. */
    public static double[] queues() {
        return inner().stream().mapToDouble(meter -> {
            long done = meter.done.sum();
            return meter.put.sum() - done;
        }).toArray();
    }

    /**
     * The greatest age since emission at which a node started with a row since the last call, in nanoseconds.
     */
    public static long oldestNs() {
        return inner().stream().mapToLong(meter -> meter.oldestNs.getAndSet(0)).max().orElse(0);
    }

    private static List<Meter> inner() {
        return ALL.values().stream().filter(meter -> !meter.source).toList();
    }
}
