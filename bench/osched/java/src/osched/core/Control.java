package osched.core;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Takes commands from standard input, one JSON object a line, and answers each with a JSON object in a line:
 *
 * <ul>
 *   <li>{@code {"rate": 1000}}: from now on all sources together are due to emit so many rows per second
 *   <li>{@code {"mark": "begin"}}, {@code {"mark": "end"}}: what was counted between the two
 *   <li>{@code {"begin": 1000}}: rate and mark at one moment
 *   <li>{@code {"drain": 60}}: the sources stop; answers when no row is left inside or so many seconds are
 *       over, with the number of results since the beginning, those included that came after the end
 *   <li>{@code {"stop": true}}: the process ends
 * </ul>
 */
public final class Control {
    private static final Pattern COMMAND = Pattern.compile("\\{\\s*\"(\\w+)\"\\s*:\\s*\"?([\\w.]+)\"?\\s*}");
    private static final long READY_LIMIT_NS = 180_000_000_000L;

    private final PrintStream answers;
    private final Queues queues = Queues.start();
    private double rate;
    private long beginNs;
    private long ingressBefore;
    private long results;

    private Control(PrintStream answers) {
        this.answers = answers;
    }

    /**
     * Redirects standard output to standard error, where engines log; returns the one for answers. Call it
     * first.
     */
    public static PrintStream answers() {
        PrintStream answers = System.out;
        System.setOut(System.err);
        return answers;
    }

    /**
     * Waits until all nodes are ready, says so, and obeys until the input ends or says `stop`. Ends the
     * process.
     */
    public static void obey(PrintStream answers, List<Query> queries) throws IOException {
        long instances = queries.stream().flatMap(query -> query.nodes().stream())
                .mapToLong(Query.Node::parallelism).sum();
        long limit = System.nanoTime() + READY_LIMIT_NS;
        while (Meter.openedCount() < instances) {
            if (System.nanoTime() > limit) {
                System.err.println(Meter.openedCount() + " of " + instances + " tasks have started within 180 s");
                Runtime.getRuntime().halt(1);
            }
            LockSupport.parkNanos(20_000_000);
        }
        answers.printf(Locale.ROOT,
                "{\"ready\": true, \"pid\": %d, \"queries\": %d, \"tasks\": %d, \"iterations_per_us\": %.3f}%n",
                ProcessHandle.current().pid(), queries.size(), instances, Burn.iterationsPerUs());
        answers.flush();
        Control control = new Control(answers);
        var input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null && control.answer(line); line = input.readLine()) {
            answers.flush();
        }
        answers.flush();
        // Neither engine is asked to end in order: it would take seconds, and nothing is to be kept.
        Runtime.getRuntime().halt(0);
    }

    private boolean answer(String line) {
        Matcher command = COMMAND.matcher(line);
        if (!command.find()) {
            answers.println("{\"error\": \"a command has one member: rate, begin, mark, drain or stop\"}");
            return true;
        }
        String value = command.group(2);
        switch (command.group(1)) {
            case "rate" -> setRate(Double.parseDouble(value));
            case "begin" -> begin(Double.parseDouble(value));
            case "mark" -> {
                if (value.equals("begin")) {
                    begin(rate);
                } else {
                    end();
                }
            }
            case "drain" -> drain(Double.parseDouble(value));
            case "stop" -> {
                answers.println("{\"ok\": true}");
                return false;
            }
            default -> answers.println("{\"error\": \"unknown command '" + command.group(1) + "'\"}");
        }
        return true;
    }

    private void setRate(double rowsPerSecond) {
        rate = rowsPerSecond;
        Pace.rate(rowsPerSecond);
        answers.println("{\"ok\": true}");
    }

    private void begin(double rowsPerSecond) {
        rate = rowsPerSecond;
        queues.begin();
        Latencies.begin();
        ingressBefore = Meter.ingress();
        beginNs = System.nanoTime();
        // Sources begin anew, so that what they owed before does not count as a part of this measurement.
        Pace.rate(rowsPerSecond);
        answers.println("{\"ok\": true}");
    }

    private void end() {
        double seconds = (Latencies.end() - beginNs) / 1e9;
        long ingress = Meter.ingress() - ingressBefore;
        long owed = Pace.owed();
        long inside = Meter.inside();
        String spread = queues.json();
        Latencies.Taken window = Latencies.take();
        results = window.results();
        answers.printf(Locale.ROOT,
                "{\"seconds\": %.3f, \"offered\": %d, \"ingress\": %d, \"inside\": %d, \"goodput\": %.3f, %s, %s}%n",
                seconds, ingress + owed, ingress, inside, results / seconds, window.json(), spread);
    }

    private void drain(double seconds) {
        rate = 0;
        Pace.rate(0);
        long begin = System.nanoTime();
        // A source may have polled a row just before the rate was changed.
        do {
            LockSupport.parkNanos(20_000_000);
        } while (Meter.inside() > 0 && System.nanoTime() - begin < seconds * 1e9);
        long left = Meter.inside();
        answers.printf(Locale.ROOT, "{\"drained\": %b, \"inside\": %d, \"seconds\": %.3f, \"results\": %d}%n",
                left == 0, left, (System.nanoTime() - begin) / 1e9, results + Latencies.late());
    }
}
