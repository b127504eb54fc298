package osched.workload;

import java.util.ArrayList;
import java.util.List;
import osched.core.Burn;
import osched.core.Options;
import osched.core.Query;

/**
 * The workloads by name. Options: `--workload` (`syn`, `lr`, `vs`, `etl` or `stats`), `--queries` (how many
 * copies; 20 of `syn`, else 1), `--operators` (of each query of `syn`), `--blocking` (of `syn`),
 * `--parallelism` (of operators with a key), `--seed`, `--iterations-per-us` (of `syn`; measured by default).
 */
public final class Workloads {
    private Workloads() {}

    /** The queries that the options name. */
    public static List<Query> of(Options options) {
        String workload = options.text("workload", "syn");
        int count = options.number("queries", workload.equals("syn") ? 20 : 1);
        int parallelism = options.number("parallelism", 1);
        List<Query> queries = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            queries.add(switch (workload) {
                case "syn" -> Syn.query("q" + number, options.number("operators", 5), options.flag("blocking", false),
                        options.number("seed", 1) * 1_000L + number);
                case "lr" -> LinearRoad.query(name("lr", number, count), parallelism);
                case "vs" -> VoipStream.query(name("vs", number, count), parallelism);
                case "etl" -> Etl.query(name("etl", number, count), parallelism);
                case "stats" -> Stats.query(name("stats", number, count), parallelism);
                default -> throw new IllegalArgumentException(
                        "there is no workload '" + workload + "'; use one of: syn, lr, vs, etl, stats");
            });
        }
        return queries;
    }

    /** Makes {@link Burn} ready, if the workload uses it. */
    static void calibrate(Options options) {
        if (options.text("iterations-per-us", "").isEmpty()) {
            Burn.calibrate();
        } else {
            Burn.set(options.fraction("iterations-per-us", 1));
        }
    }

    private static String name(String workload, int number, int count) {
        return count == 1 ? workload : workload + number;
    }
}
