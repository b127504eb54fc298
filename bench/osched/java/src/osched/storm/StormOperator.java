package osched.storm;

import java.util.Map;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;
import osched.core.Emit;
import osched.core.Meter;
import osched.core.Operator;
import osched.core.Row;

/** Runs an {@link Operator} in Storm. Each of its outputs is a stream. */
final class StormOperator extends BaseRichBolt {
    private static final long serialVersionUID = 1;

    private final String name;
    private final Operator operator;
    private final String[][] targets;
    private final boolean acked;
    private transient OutputCollector collector;
    private transient Meter own;
    private transient Meter[][] behind;

    StormOperator(String name, Operator operator, String[][] targets, boolean acked) {
        this.name = name;
        this.operator = operator;
        this.targets = targets;
        this.acked = acked;
    }

    /** The stream of this output. */
    static String stream(int output) {
        return output == 0 ? "default" : "s" + output;
    }

    /** Declares the streams of these outputs. */
    static void declare(OutputFieldsDeclarer declarer, String[][] targets) {
        for (int output = 0; output < targets.length; output++) {
            declarer.declareStream(stream(output), new Fields("row"));
        }
    }

    @Override
    public void prepare(Map<String, Object> ignored, TopologyContext context, OutputCollector given) {
        collector = given;
        own = Meter.of(name, false);
        behind = Meter.of(targets);
        operator.open(context.getThisTaskIndex());
        Meter.opened();
    }

    @Override
    public void execute(Tuple tuple) {
        Row row = (Row) tuple.getValue(0);
        own.begin(row);
        Emit emit = (output, made) -> {
            Meter.put(behind[output]);
            if (acked) {
                collector.emit(stream(output), tuple, new Values(made));
            } else {
                collector.emit(stream(output), new Values(made));
            }
        };
        try {
            operator.process(row, emit);
        } catch (Exception failed) {
            throw new IllegalStateException(name, failed);
        }
        if (acked) {
            collector.ack(tuple);
        }
        own.done();
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declare(declarer, targets);
    }
}
