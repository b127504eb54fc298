package osched.workload;

/**
 * A counting Bloom filter whose counts decay exponentially with time, each cell when it is touched (Bianchi
 * et al., "On-demand time-decaying Bloom filters for telemarketer detection", 2011).
 */
final class DecayingBloom {
    private static final int HASHES = 4;

    private final double[] counts;
    private final double[] times;
    private final double decayPerSecond;

    /** A filter with so many cells, a power of two, whose counts fall to half in so many seconds. */
    DecayingBloom(int cells, double halfLifeSeconds) {
        counts = new double[cells];
        times = new double[cells];
        decayPerSecond = Math.log(2) / halfLifeSeconds;
    }

    /** Adds to the count of a key; times in seconds. */
    void add(long key, double amount, double time) {
        for (int number = 0; number < HASHES; number++) {
            int cell = cell(key, number);
            counts[cell] = decayed(cell, time) + amount;
            times[cell] = time;
        }
    }

    /** The count of a key, or a little more if other keys have its cells. */
    double count(long key, double time) {
        double least = Double.MAX_VALUE;
        for (int number = 0; number < HASHES; number++) {
            least = Math.min(least, decayed(cell(key, number), time));
        }
        return least;
    }

    private double decayed(int cell, double time) {
        return counts[cell] * Math.exp(-decayPerSecond * Math.max(0, time - times[cell]));
    }

    private int cell(long key, int number) {
        return (int) (mix(key + number * 0x9E3779B97F4A7C15L) & (counts.length - 1));
    }

    /** A hash of a number: the finalizer of SplitMix64. */
    static long mix(long value) {
        long mixed = (value ^ value >>> 30) * 0xBF58476D1CE4E5B9L;
        mixed = (mixed ^ mixed >>> 27) * 0x94D049BB133111EBL;
        return mixed ^ mixed >>> 31;
    }
}
