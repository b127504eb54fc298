package osched.core;

/** Where an operator puts the rows that it makes. */
@FunctionalInterface
public interface Emit {
    /** Emits a row at one of the operator's outputs, which {@link Query#edge} numbers from 0. */
    void emit(int output, Row row);

    /** Emits a row at output 0. */
    default void emit(Row row) {
        emit(0, row);
    }
}
