package osched.storm;

import java.util.Map;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Values;
import osched.core.Generator;
import osched.core.Meter;
import osched.core.Pace;
import osched.core.Row;

/**
 * A spout whose rows come as {@link Pace} says. Between rows it waits as Storm does for a spout without rows:
 * 1 ms.
 */
final class StormSource extends BaseRichSpout {
    private static final long serialVersionUID = 1;

    private final String name;
    private final long seed;
    private final Generator generator;
    private final String[][] targets;
    private final boolean acked;
    private transient SpoutOutputCollector collector;
    private transient Pace pace;
    private transient Meter own;
    private transient Meter[][] behind;
    private transient long emitted;

    StormSource(String name, long seed, Generator generator, String[][] targets, boolean acked) {
        this.name = name;
        this.seed = seed;
        this.generator = generator;
        this.targets = targets;
        this.acked = acked;
    }

    @Override
    public void open(Map<String, Object> ignored, TopologyContext context, SpoutOutputCollector given) {
        collector = given;
        pace = Pace.of(name, seed, generator);
        own = Meter.of(name, true);
        behind = Meter.of(targets);
        Meter.opened();
    }

    @Override
    public void nextTuple() {
        Row row = pace.poll();
        if (row == null) {
            return;
        }
        Meter.put(behind[0]);
        if (acked) {
            collector.emit(StormOperator.stream(0), new Values(row), emitted++);
        } else {
            collector.emit(StormOperator.stream(0), new Values(row));
        }
        own.done();
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        StormOperator.declare(declarer, targets);
    }
}
