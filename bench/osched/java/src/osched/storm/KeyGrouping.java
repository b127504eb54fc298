package osched.storm;

import java.util.List;
import org.apache.storm.generated.GlobalStreamId;
import org.apache.storm.grouping.CustomStreamGrouping;
import org.apache.storm.task.WorkerTopologyContext;
import osched.core.Key;
import osched.core.Row;

/** Sends a row to the instance that its key names, as the Flink runner does. */
final class KeyGrouping implements CustomStreamGrouping {
    private static final long serialVersionUID = 1;

    private final Key key;
    private transient List<Integer> tasks;

    KeyGrouping(Key key) {
        this.key = key;
    }

    @Override
    public void prepare(WorkerTopologyContext context, GlobalStreamId stream, List<Integer> targets) {
        tasks = targets;
    }

    @Override
    public List<Integer> chooseTasks(int from, List<Object> values) {
        return List.of(tasks.get(Key.instance(key.of((Row) values.get(0)), tasks.size())));
    }
}
