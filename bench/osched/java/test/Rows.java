import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.zip.CRC32;
import osched.core.Burn;
import osched.core.Emit;
import osched.core.Operator;
import osched.core.Options;
import osched.core.Query;
import osched.core.Row;
import osched.workload.Workloads;

/**
 * Runs workloads without an engine, on one thread, and prints for each the rows that its source makes of a seed, and the
 * results that its operators make of these: how many, and a check sum.
 */
final class Rows {
    private static final int ROWS = 2_000;

    private Rows() {}

    /** Arguments: seeds with commas between them, and names of workloads. */
    public static void main(String[] args) throws Exception {
        Burn.set(0);
        for (String seed : args[0].split(",")) {
            for (String workload : List.of(args).subList(1, args.length)) {
                String[] options = {"--workload", workload, "--queries", "1", "--seed", seed};
                Query query = Workloads.of(new Options(options)).get(0);
                System.out.println(workload + " " + new Run(query, Long.parseLong(seed)).result());
            }
        }
    }

    /** A query that runs. */
    private static final class Run {
        private final Query query;
        private final long seed;
        private final Map<String, Query.Node> nodes = new HashMap<>();
        private final Map<String, Long> counts = new TreeMap<>();
        private final CRC32 made = new CRC32();
        private final CRC32 results = new CRC32();

        Run(Query query, long seed) {
            this.query = query;
            this.seed = seed;
        }

        String result() throws Exception {
            for (Query.Node node : query.nodes()) {
                nodes.put(node.name(), node);
                if (node.role() == Query.Role.OPERATOR) {
                    node.operator().open(0);
                }
            }
            Query.Node source = query.nodes().get(0);
            SplittableRandom random = new SplittableRandom(seed);
            for (long number = 0; number < ROWS; number++) {
                Row row = source.generator().next(number, random);
                add(made, row);
                send(source, 0, row);
            }
            long arrived = counts.entrySet().stream().filter(of -> of.getKey().endsWith("-sink"))
                    .mapToLong(Map.Entry::getValue).sum();
            return made.getValue() + " " + arrived + " " + results.getValue() + " " + counts;
        }

        private void send(Query.Node from, int output, Row row) {
            for (String target : query.targets(from)[output]) {
                Query.Node node = nodes.get(target);
                counts.merge(target, 1L, Long::sum);
                if (node.role() == Query.Role.SINK) {
                    add(results, row);
                    continue;
                }
                process(node.operator(), row, (behind, emitted) -> send(node, behind, emitted));
            }
        }

        private static void process(Operator operator, Row row, Emit emit) {
            try {
                operator.process(row, emit);
            } catch (Exception failed) {
                throw new IllegalStateException(failed);
            }
        }

        private static void add(CRC32 sum, Row row) {
            sum.update((row.kind + " " + row.text + " " + java.util.Arrays.toString(row.fields)).getBytes(
                    java.nio.charset.StandardCharsets.UTF_8));
        }
    }
}
