package osched.core;

import java.io.Serializable;

/** What decides which parallel instance of an operator gets a row. */
@FunctionalInterface
public interface Key extends Serializable {
    /** Rows with equal numbers go to the same instance. */
    long of(Row row);

    /** The instance, from 0, that gets the rows with this key. */
    static int instance(long key, int instances) {
        return (int) Math.floorMod(key * 0x9E3779B97F4A7C15L >>> 17, (long) instances);
    }
}
