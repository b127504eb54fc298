package osched.core;

import java.io.Serializable;

/**
 * Processes rows one after the other. Each parallel instance is a copy of its own, and one thread uses it.
 */
@FunctionalInterface
public interface Operator extends Serializable {
    /** Called once in the instance's thread before the first row. Makes the state that is not serialized. */
    default void open(int instance) {}

    /** Processes one row. An exception ends the benchmark. */
    void process(Row row, Emit emit) throws Exception;
}
