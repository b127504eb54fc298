package osched.flink;

import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;
import osched.core.Emit;
import osched.core.Meter;
import osched.core.Operator;
import osched.core.Row;

/** Runs an {@link Operator} in Flink. Output 0 is the main one, the others are side outputs. */
final class FlinkOperator extends ProcessFunction<Row, Row> {
    private static final long serialVersionUID = 1;

    private final String name;
    private final Operator operator;
    private final String[][] targets;
    private transient Meter own;
    private transient Meter[][] behind;
    private transient OutputTag<Row>[] tags;

    FlinkOperator(String name, Operator operator, String[][] targets) {
        this.name = name;
        this.operator = operator;
        this.targets = targets;
    }

    /** The side output of this number, from 1. */
    static OutputTag<Row> tag(int output) {
        return new OutputTag<>("s" + output, TypeInformation.of(Row.class));
    }

    @Override
    @SuppressWarnings({"unchecked", "rawtypes"})
    public void open(OpenContext context) {
        own = Meter.of(name, false);
        behind = Meter.of(targets);
        tags = new OutputTag[targets.length];
        for (int output = 1; output < targets.length; output++) {
            tags[output] = tag(output);
        }
        operator.open(getRuntimeContext().getTaskInfo().getIndexOfThisSubtask());
        Meter.opened();
    }

    @Override
    public void processElement(Row row, Context context, Collector<Row> collector) throws Exception {
        own.begin(row);
        Emit emit = (output, made) -> {
            Meter.put(behind[output]);
            if (output == 0) {
                collector.collect(made);
            } else {
                context.output(tags[output], made);
            }
        };
        operator.process(row, emit);
        own.done();
    }
}
