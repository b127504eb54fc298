package osched.core;

import java.lang.management.ManagementFactory;
import java.util.Arrays;

/**
 * Uses the processor for a given time. A calibration fixes the work, so it does not depend on how often a
 * thread is preempted.
 */
public final class Burn {
    private static volatile double iterationsPerUs = 1;

    private Burn() {}

    /** Sets how many iterations take a microsecond, so that several processes do the same work. */
    public static void set(double perUs) {
        iterationsPerUs = perUs;
    }

    /** How many iterations take a microsecond. */
    public static double iterationsPerUs() {
        return iterationsPerUs;
    }

    /**
     * Measures how many iterations take a microsecond of this thread's processor time: the median of many
     * tries.
     */
    public static void calibrate() {
        var threads = ManagementFactory.getThreadMXBean();
        int iterations = 100_000;
        double[] tries = new double[1_000];
        long result = 1;
        for (int at = 0; at < tries.length; at++) {
            long begin = threads.getCurrentThreadCpuTime();
            result = run(iterations, result);
            tries[at] = iterations * 1e3 / Math.max(1, threads.getCurrentThreadCpuTime() - begin);
        }
        // The first tries run interpreted or wait for the compiler.
        double[] late = Arrays.copyOfRange(tries, tries.length / 2, tries.length);
        Arrays.sort(late);
        iterationsPerUs = result == 0 ? 1 : late[late.length / 2];
    }

    /**
     * Works for so many microseconds of processor time. The caller keeps the result, else the work is
     * optimized away.
     */
    public static long us(double us, long seed) {
        return run((int) (us * iterationsPerUs), seed);
    }

    private static long run(int iterations, long seed) {
        long state = seed | 1;
        for (int at = 0; at < iterations; at++) {
            state ^= state << 13;
            state ^= state >>> 7;
            state ^= state << 17;
        }
        return state;
    }
}
