package osched.flink;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.graph.StreamGraph;
import osched.core.Key;
import osched.core.Options;
import osched.core.Query;
import osched.core.Row;
import osched.workload.Runner;
import osched.workload.Workloads;

/**
 * Runs a workload in Flink: a cluster of one process, a job per query, each operator a task of its own.
 * Options: those of {@link Workloads}, `--rest-port`, `--prometheus-port`, `--buffer-timeout-ms`.
 */
public final class FlinkRunner {
    /** What a scheduler needs to know. Without a filter the reporter writes 28 KB per task. */
    private static final String REPORTED = "*.job.task,*.job.task.Shuffle*:"
            + "numRecordsIn,numRecordsOut,inputQueueLength,inPoolUsage,currentInputWatermark";

    private FlinkRunner() {}

    /** Starts the queries and obeys the commands on standard input. */
    public static void main(String[] args) throws Exception {
        Runner.run(args, FlinkRunner::start);
    }

    private static void start(Options options, List<Query> queries) throws Exception {
        Configuration set = configuration(options, queries);
        MiniCluster cluster = new MiniCluster(new MiniClusterConfiguration.Builder().setConfiguration(set)
                .setNumTaskManagers(1).setNumSlotsPerTaskManager(slots(queries)).build());
        cluster.start();
        for (Query query : queries) {
            StreamExecutionEnvironment flink = new StreamExecutionEnvironment(set);
            flink.setParallelism(1);
            flink.disableOperatorChaining();
            flink.setBufferTimeout(options.number("buffer-timeout-ms", 100));
            build(flink, query, options.number("seed", 1));
            StreamGraph graph = flink.getStreamGraph();
            graph.setJobName(query.name());
            cluster.submitJob(graph.getJobGraph()).get();
        }
    }

    private static int slots(List<Query> queries) {
        return queries.stream()
                .mapToInt(query -> query.nodes().stream().mapToInt(Query.Node::parallelism).max().orElse(1)).sum();
    }

    private static Configuration configuration(Options options, List<Query> queries) {
        Configuration set = new Configuration();
        String rest = options.text("rest-port", "8081");
        set.setString("rest.address", "127.0.0.1");
        set.setString("rest.bind-address", "127.0.0.1");
        set.setString("rest.port", rest);
        set.setString("rest.bind-port", rest);
        set.setString("metrics.reporters", "prom");
        set.setString("metrics.reporter.prom.factory.class",
                "org.apache.flink.metrics.prometheus.PrometheusReporterFactory");
        set.setString("metrics.reporter.prom.port", options.text("prometheus-port", "9249"));
        set.setString("metrics.reporter.prom.filter.includes", REPORTED);
        // A failed operator is a failed measurement: it ends the process instead of starting anew.
        set.setString("restart-strategy.type", "none");
        int edges = queries.stream()
                .mapToInt(query -> query.nodes().stream().mapToInt(node -> query.into(node).size()).sum()).sum();
        // A connection has 10 buffers of 32 KB, and parallel tasks have several connections.
        String network = Math.max(64, edges * 2) + "m";
        set.setString("taskmanager.memory.network.min", network);
        set.setString("taskmanager.memory.network.max", network);
        set.setString("taskmanager.memory.managed.size", "16m");
        // A box that is full must not look like a dead cluster.
        set.setString("heartbeat.timeout", "600000");
        return set;
    }

    private static void build(StreamExecutionEnvironment flink, Query query, long seed) {
        Map<String, DataStream<Row>> made = new HashMap<>();
        for (Query.Node node : query.nodes()) {
            String[][] targets = query.targets(node);
            switch (node.role()) {
                case SOURCE -> {
                    var source = new FlinkSource(node.name(), seed, node.generator(), targets);
                    made.put(node.name(), flink.fromSource(source, WatermarkStrategy.noWatermarks(), node.name(),
                            TypeInformation.of(Row.class)));
                }
                case OPERATOR -> made.put(node.name(), input(query, node, made)
                        .process(new FlinkOperator(node.name(), node.operator(), targets),
                                TypeInformation.of(Row.class))
                        .name(node.name()).setParallelism(node.parallelism()));
                case SINK -> input(query, node, made).sinkTo(new FlinkSink(node.name())).name(node.name());
            }
        }
    }

    private static DataStream<Row> input(Query query, Query.Node node, Map<String, DataStream<Row>> made) {
        DataStream<Row> union = null;
        for (Query.Edge edge : query.into(node)) {
            DataStream<Row> stream = made.get(edge.from().name());
            if (edge.output() > 0) {
                stream = ((SingleOutputStreamOperator<Row>) stream).getSideOutput(FlinkOperator.tag(edge.output()));
            }
            if (edge.key() != null && node.parallelism() > 1) {
                Key key = edge.key();
                stream = stream.partitionCustom(Key::instance, key::of);
            } else if (node.parallelism() != edge.from().parallelism()) {
                stream = stream.rebalance();
            }
            union = union == null ? stream : union.union(stream);
        }
        return union;
    }
}
