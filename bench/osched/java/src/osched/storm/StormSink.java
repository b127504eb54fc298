package osched.storm;

import java.util.Map;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Tuple;
import osched.core.Latencies;
import osched.core.Meter;
import osched.core.Row;

/** Measures the results. */
final class StormSink extends BaseRichBolt {
    private static final long serialVersionUID = 1;

    private final String name;
    private final boolean acked;
    private transient OutputCollector collector;
    private transient Meter own;
    private transient Latencies latencies;

    StormSink(String name, boolean acked) {
        this.name = name;
        this.acked = acked;
    }

    @Override
    public void prepare(Map<String, Object> ignored, TopologyContext context, OutputCollector given) {
        collector = given;
        own = Meter.of(name, false);
        latencies = Latencies.ofSink();
        Meter.opened();
    }

    @Override
    public void execute(Tuple tuple) {
        Row row = (Row) tuple.getValue(0);
        own.begin(row);
        latencies.record(row);
        if (acked) {
            collector.ack(tuple);
        }
        own.done();
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {}
}
