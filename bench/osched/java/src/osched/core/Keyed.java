package osched.core;

import java.util.HashMap;
import java.util.Map;

/** An operator that keeps a state for each key. */
public abstract class Keyed<S> implements Operator {
    private static final long serialVersionUID = 1;

    /** The states by their keys. Empty at first. */
    protected transient Map<Long, S> states;

    @Override
    public void open(int instance) {
        states = new HashMap<>();
    }
}
