package osched.core;

import java.io.Serializable;
import java.util.SplittableRandom;

/** Makes the rows of a source. The same seed makes the same rows. */
public interface Generator extends Serializable {
    /** The next row: the `number`-th, from 0. */
    Row next(long number, SplittableRandom random);
}
