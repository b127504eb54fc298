package osched.storm;

import java.util.List;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.DaemonConfig;
import org.apache.storm.LocalCluster;
import org.apache.storm.topology.BoltDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import osched.core.Options;
import osched.core.Query;
import osched.workload.Runner;
import osched.workload.Workloads;

/**
 * Runs a workload in Storm: a local cluster, and one topology of one worker with all queries, or one for each
 * (`--topologies each`). Options: those of {@link Workloads}, `--graphite-port`, `--period-ms`,
 * `--max-pending` (0: rows are not acknowledged), `--stats-sample-rate`.
 */
public final class StormRunner {
    private StormRunner() {}

    /** Starts the queries and obeys the commands on standard input. */
    public static void main(String[] args) throws Exception {
        Runner.run(args, StormRunner::start);
    }

    private static void start(Options options, List<Query> queries) throws Exception {
        boolean each = options.text("topologies", "one").equals("each");
        LocalCluster cluster = new LocalCluster.Builder().withSupervisors(1)
                .withPortsPerSupervisor(each ? queries.size() : 1)
                // A box that is full must not look like a dead worker.
                .withDaemonConf(Config.SUPERVISOR_WORKER_TIMEOUT_SECS, 600)
                .withDaemonConf(DaemonConfig.NIMBUS_TASK_TIMEOUT_SECS, 600)
                .withDaemonConf(DaemonConfig.NIMBUS_SUPERVISOR_TIMEOUT_SECS, 600)
                .withDaemonConf(Config.STORM_ZOOKEEPER_SESSION_TIMEOUT, 40_000)
                .withDaemonConf(Config.STORM_ZOOKEEPER_CONNECTION_TIMEOUT, 40_000)
                .build();
        Config config = configuration(options);
        boolean acked = options.number("max-pending", 0) > 0;
        if (each) {
            for (Query query : queries) {
                TopologyBuilder builder = new TopologyBuilder();
                build(builder, query, options.number("seed", 1), acked);
                cluster.submitTopology(query.name(), config, builder.createTopology());
            }
        } else {
            TopologyBuilder builder = new TopologyBuilder();
            queries.forEach(query -> build(builder, query, options.number("seed", 1), acked));
            cluster.submitTopology(options.text("workload", "syn"), config, builder.createTopology());
        }
    }

    private static Config configuration(Options options) {
        Config config = new Config();
        config.setNumWorkers(1);
        int pending = options.number("max-pending", 0);
        config.setNumAckers(pending > 0 ? 1 : 0);
        if (pending > 0) {
            config.setMaxSpoutPending(pending);
            config.setMessageTimeoutSecs(3_600);
        }
        // Counts are exact: by default Storm counts one tuple of twenty and multiplies.
        config.setStatsSampleRate(options.fraction("stats-sample-rate", 1.0));
        config.put(Config.TOPOLOGY_METRICS_REPORTERS, List.of(Map.of(
                "class", "org.apache.storm.metrics2.reporters.GraphiteStormReporter",
                "report.period", options.number("period-ms", 1_000),
                "report.period.units", "MILLISECONDS",
                "graphite.host", "127.0.0.1",
                "graphite.port", options.number("graphite-port", 2003))));
        return config;
    }

    private static void build(TopologyBuilder builder, Query query, long seed, boolean acked) {
        for (Query.Node node : query.nodes()) {
            String[][] targets = query.targets(node);
            switch (node.role()) {
                case SOURCE -> builder.setSpout(node.name(),
                        new StormSource(node.name(), seed, node.generator(), targets, acked), 1);
                case OPERATOR -> connect(query, node, builder.setBolt(node.name(),
                        new StormOperator(node.name(), node.operator(), targets, acked), node.parallelism()));
                case SINK -> connect(query, node, builder.setBolt(node.name(), new StormSink(node.name(), acked), 1));
            }
        }
    }

    private static void connect(Query query, Query.Node node, BoltDeclarer bolt) {
        for (Query.Edge edge : query.into(node)) {
            String stream = StormOperator.stream(edge.output());
            if (edge.key() != null && node.parallelism() > 1) {
                bolt.customGrouping(edge.from().name(), stream, new KeyGrouping(edge.key()));
            } else {
                bolt.shuffleGrouping(edge.from().name(), stream);
            }
        }
    }
}
