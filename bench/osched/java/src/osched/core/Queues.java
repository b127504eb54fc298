package osched.core;

import java.util.Locale;
import java.util.concurrent.locks.LockSupport;

/**
 * Samples how rows are spread over the nodes: the goals of the policies "queue size" and "first come first
 * served".
 */
public final class Queues {
    private static final long PERIOD_NS = 50_000_000;

    private double variances;
    private double rows;
    private long oldestNs;
    private long samples;

    /** Starts the thread that samples, for the life of the process. */
    public static Queues start() {
        Queues queues = new Queues();
        Thread thread = new Thread(() -> {
            while (true) {
                LockSupport.parkNanos(PERIOD_NS);
                queues.sample();
            }
        }, "bench-queues");
        thread.setDaemon(true);
        thread.start();
        return queues;
    }

    /** Forgets what was sampled. */
    public synchronized void begin() {
        variances = 0;
        rows = 0;
        oldestNs = 0;
        samples = 0;
        Meter.oldestNs();
    }

    /**
     * Members of a JSON object since {@link #begin}: the variance of the queues' sizes over the nodes and
     * their sum, both as means over time, and the greatest age of a row that a node started with.
     */
    public synchronized String json() {
        sample();
        return String.format(Locale.ROOT, "\"queue_variance\": %.1f, \"queue_rows\": %.1f, \"oldest_ms\": %.1f",
                variances / samples, rows / samples, oldestNs / 1e6);
    }

    private synchronized void sample() {
        double[] queues = Meter.queues();
        double sum = 0;
        for (double queue : queues) {
            sum += queue;
        }
        double mean = sum / queues.length;
        double squares = 0;
        for (double queue : queues) {
            squares += (queue - mean) * (queue - mean);
        }
        variances += squares / queues.length;
        rows += sum;
        oldestNs = Math.max(oldestNs, Meter.oldestNs());
        samples++;
    }
}
