package osched.core;

import java.util.Map;
import java.util.TreeMap;

/** The options of a runner: `--name value` pairs. */
public final class Options {
    private final Map<String, String> given = new TreeMap<>();

    /** Reads the arguments of the command line. */
    public Options(String[] args) {
        for (int at = 0; at < args.length; at += 2) {
            if (!args[at].startsWith("--") || at + 1 == args.length) {
                throw new IllegalArgumentException("'" + args[at] + "' is no option with a value; write --name value");
            }
            given.put(args[at].substring(2), args[at + 1]);
        }
    }

    /** A text. */
    public String text(String name, String otherwise) {
        return given.getOrDefault(name, otherwise);
    }

    /** A whole number. */
    public int number(String name, int otherwise) {
        return given.containsKey(name) ? Integer.parseInt(given.get(name)) : otherwise;
    }

    /** A number with a fraction. */
    public double fraction(String name, double otherwise) {
        return given.containsKey(name) ? Double.parseDouble(given.get(name)) : otherwise;
    }

    /** Yes or no: `true` or `false`. */
    public boolean flag(String name, boolean otherwise) {
        return given.containsKey(name) ? Boolean.parseBoolean(given.get(name)) : otherwise;
    }
}
